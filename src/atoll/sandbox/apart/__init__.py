"""Evaluator and candidate in two sandboxes, connected by named pipes that carry plain data."""
