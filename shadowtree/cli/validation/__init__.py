"""Files of steps and expectations: read, and run."""
