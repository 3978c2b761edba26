"""Commands that start and control runs."""
