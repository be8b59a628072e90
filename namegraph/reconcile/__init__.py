"""Healing after a partition: both ends of every arc come to one state again."""
