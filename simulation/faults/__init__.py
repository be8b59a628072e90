"""What goes wrong, and when: all of it from a seed."""
