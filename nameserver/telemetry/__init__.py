"""Telemetry for operators: logs, metrics and traces of the server's own work."""
