"""Candidates of store."""
