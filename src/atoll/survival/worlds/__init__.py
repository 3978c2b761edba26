"""Worlds: what an agent lives in, our own and those of others."""
