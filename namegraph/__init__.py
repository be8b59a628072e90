"""The pure core of the name server: the name graph and the protocol that keeps it right. No I/O and no clock."""
