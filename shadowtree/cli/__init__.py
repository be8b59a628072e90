"""The command line. Each command has a module, which is loaded when the command runs."""
