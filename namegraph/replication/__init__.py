"""The ancestry of owned nodes, as versioned records that servers exchange."""
