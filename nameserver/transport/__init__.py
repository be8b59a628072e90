"""Carries sessions out: dials, accepts, relays and detours, so that each pair of servers has one."""
