"""Worldlines that are workspaces: git worktrees beside the main one, which nothing touches before an approval."""

from atoll.mind.workspace.approvals import Approval, Approvals
from atoll.mind.workspace.checks import WorkspaceRunner, RunnerConfig
from atoll.mind.workspace.kind import GitBackend
from atoll.mind.workspace.names import WorkspaceError
from atoll.mind.workspace.repository import Repository
from atoll.mind.workspace.workspace import Workspace

__all__ = ["Approval", "Approvals", "WorkspaceRunner", "WorkspaceError", "Repository", "RunnerConfig", "Workspace", "GitBackend"]
