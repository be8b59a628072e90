"""What several servers say of one thing, side by side, and what of that is wrong."""
