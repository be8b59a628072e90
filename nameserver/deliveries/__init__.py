"""Messages to groups: what clients send becomes events of the delivery half, and its log is handed to listeners."""
