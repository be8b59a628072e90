"""Shell of the mail gateway: listeners, questions to the name server, answers."""
