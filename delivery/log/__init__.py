"""The log of a server: parcels in the order in which they arrived, each with the number of its audience.

log         append, read, cut
segments    a run of consecutive entries: its size, writers and audiences
holders     bytes by writer, and the writer that loses its oldest entries when the log is full
"""
