"""Who answers: whose a name is, and how a call or a part of one gets there."""
