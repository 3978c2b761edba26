"""Population of programs."""
