"""One audit a file. Each audit checks all servers against one rule."""
