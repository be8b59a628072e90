"""The ancestry of owned nodes, as versioned records that servers hold of one another."""
