"""What a server tells its operators of itself: logs, metrics and traces, from what it sees of its own work."""
