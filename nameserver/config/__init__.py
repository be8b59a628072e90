"""Settings of the operator: settings, addresses, and the port."""
