"""Worlds for agents: SurvivalGrid, MiniGrid, Crafter, the operating system and your own."""
