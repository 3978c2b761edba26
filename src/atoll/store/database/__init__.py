"""Databases: connections, schema, SQLite and PostgreSQL."""
