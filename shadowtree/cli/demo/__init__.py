"""What `shadowtree demo` shows, and on what."""
