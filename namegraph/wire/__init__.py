"""What name servers say to one another: messages, their parts, their bytes, and which values are legal."""
