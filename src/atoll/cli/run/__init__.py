"""Run of cli."""
