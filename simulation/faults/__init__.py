"""Faults of servers, links and disks, drawn from a seed."""
