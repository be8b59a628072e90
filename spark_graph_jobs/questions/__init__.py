"""What an auditor asks of a name graph, in order or not: one question a file, answered with a table and findings."""
