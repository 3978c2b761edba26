"""Commands that export, import and analyze data."""
