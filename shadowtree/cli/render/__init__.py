"""How answers look: as lines and JSON, and to a person at a terminal."""
