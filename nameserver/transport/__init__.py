"""Transport of sessions: dialling, accepting, relays and detours, so that each pair of servers has one session."""
