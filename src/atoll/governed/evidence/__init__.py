"""Evidence of governed."""
