"""Commands that show runs and candidates."""
