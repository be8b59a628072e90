"""One file for each step of the layout, oldest first."""
