"""What listens, asks and answers."""
