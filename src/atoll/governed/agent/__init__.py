"""Agent of governed."""
