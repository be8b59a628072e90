"""File formats: `lines` reads any file safely; `graph_reader` and `graph_writer` handle arcs, `update_reader`
updates.
"""
