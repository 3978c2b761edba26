"""Inspect of cli."""
