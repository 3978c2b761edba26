"""Commands for parameters, proposals, rollouts, playbooks, tools, skills and the audit log."""
