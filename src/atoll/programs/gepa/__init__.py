"""Gepa of programs."""
