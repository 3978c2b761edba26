"""Commands for the dashboard, LLMs and the machine."""
