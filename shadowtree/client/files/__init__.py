"""File formats: `lines` reads any file safely, `graph_reader` and `graph_writer` know arcs, `update_reader` updates."""
