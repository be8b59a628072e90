"""Questions of an auditor about a name graph. Each file has one question, answered with a table and findings."""
