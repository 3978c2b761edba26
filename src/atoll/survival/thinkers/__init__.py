"""Thinkers: rule-based, LLM and fixed policies."""
