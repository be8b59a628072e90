"""Simulated clients: their requests, and the checks of the answers they get."""
