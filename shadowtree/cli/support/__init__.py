"""What commands share: options, exit codes, streams, and what they need of the machine."""
