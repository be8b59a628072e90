"""The values everything speaks of: names, who owns them, priorities, rows, operations, outcomes, refusals."""
