"""The log of a server: parcels in the order in which they came, each with the number of its audience.

log         append, read, cut
segments    a row of entries that follow one another: what they have, of whom, and for whom
holders     how much each writer has, and whose oldest entries go when the log is full
"""
