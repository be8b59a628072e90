"""Formats of files: `lines` reads any file, `graph_reader` and `graph_writer` handle arcs, `update_reader` updates."""
