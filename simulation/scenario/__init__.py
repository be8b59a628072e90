"""Schedules as short texts: read and written, run, recorded, and made shorter."""
