"""What all calls have in common: errors, deadlines, revisions, durability, and the home that answers."""
