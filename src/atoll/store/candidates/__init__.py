"""Candidates of runs: rows, queries and their writer."""
