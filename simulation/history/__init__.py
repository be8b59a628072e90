"""Judges of recorded histories. The simulator and the chaos judge record the same events.

recorded      the events of a run, as its observer records them
timeline      the same events, put in order for the judges
properties    the properties that every history must have
"""
