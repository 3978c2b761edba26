"""The dashboard: every run of a store, watched and steered in a browser."""
