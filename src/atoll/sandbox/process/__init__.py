"""Process of sandbox."""
