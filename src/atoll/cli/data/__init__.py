"""Data of cli."""
