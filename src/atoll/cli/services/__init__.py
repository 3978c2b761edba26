"""Services of cli."""
