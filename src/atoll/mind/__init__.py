"""Mind Evolution over worldlines."""
