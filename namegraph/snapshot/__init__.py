"""Reading one server's whole state while it runs, at one instant of all servers where wanted."""
