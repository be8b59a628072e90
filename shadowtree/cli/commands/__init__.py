"""The commands. Each has a module, which is loaded when the command runs."""
