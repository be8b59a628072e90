"""Scenarios, which are schedules as short texts: reading, writing, running, recording and shrinking them."""
