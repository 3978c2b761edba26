"""Linux of sandbox."""
