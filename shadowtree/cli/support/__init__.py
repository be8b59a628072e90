"""Shared parts of commands: options, exit codes, streams, and access to the machine."""
