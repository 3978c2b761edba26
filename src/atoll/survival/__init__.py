"""Survival system: an agent that puts staying alive first and learns fear and curiosity."""
