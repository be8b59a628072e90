"""Files of steps and expectations: reader and runner."""
