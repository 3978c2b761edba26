"""Program evolution: OpenEvolve folders, prompts and data sets (GEPA), parameters."""
