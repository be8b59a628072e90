"""What is decided: how addresses are written, what a lookup is answered, who may post. Pure."""
