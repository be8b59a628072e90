"""Messages to groups: calls of clients become events of the delivery half, and its log is handed to listeners."""
