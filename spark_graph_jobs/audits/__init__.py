"""One audit a file: each judges all servers by one rule."""
