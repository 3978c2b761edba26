"""Evaluation of programs."""
