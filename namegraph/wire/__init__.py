"""Messages between name servers: their parts, their bytes, and their legal values."""
