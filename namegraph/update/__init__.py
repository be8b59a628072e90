"""One update from admission to its end: ordered, prepared, decided, committed."""
