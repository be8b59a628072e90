"""What the operator chose: settings, addresses, and the port."""
