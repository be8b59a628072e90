"""Parts that all calls share: errors, deadlines, revisions, durability, and the home that answers."""
