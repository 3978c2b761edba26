"""Govern of cli."""
