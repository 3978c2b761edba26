"""Compatibility with OpenEvolve: folders, configuration keys, LLM names, checkpoints."""
