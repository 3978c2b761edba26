"""Processes that run candidates: the parent's side and the code inside them."""
