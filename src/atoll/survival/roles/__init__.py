"""The roles of the agent, each a small part that can be replaced."""
