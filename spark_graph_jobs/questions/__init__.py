"""What an auditor asks of a name graph that is in order: one question a file, each answered with a table and findings."""
