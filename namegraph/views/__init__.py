"""Views: the agreement of all servers on which servers are present."""
