"""Database of store."""
