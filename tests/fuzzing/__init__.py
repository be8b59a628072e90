"""Fuzzing: hostile bytes at every place that reads bytes of others, within limits of time and memory (`engine.py`)."""
