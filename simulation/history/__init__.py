"""Judges of recorded histories: simulator, chaos judge and laboratory record the same things.

recorded      what happened in a run, as its observer records it
timeline      the same, put in order for its judges
properties    what must hold of every history
"""
