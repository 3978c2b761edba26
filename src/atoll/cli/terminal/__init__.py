"""Terminal of cli."""
