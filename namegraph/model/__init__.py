"""Values that all packages share: names, ownership, priorities, rows, operations, outcomes, refusals."""
