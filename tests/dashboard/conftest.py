"""A store with runs in it, and a client of its dashboard."""
