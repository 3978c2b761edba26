"""Openevolve of programs."""
