"""Read one server's whole state while it runs, if wanted at one instant of all servers."""
