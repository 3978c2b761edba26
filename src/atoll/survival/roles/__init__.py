"""Roles of the agent. Each is a small, replaceable part."""
