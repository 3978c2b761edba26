"""Self-changing agents: proposals, tools, skills, reflections and candidate generators."""
