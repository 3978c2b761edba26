"""Versions of store."""
