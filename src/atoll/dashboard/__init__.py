"""Dashboard: shows and controls the runs of a store in a browser."""
