"""Worldlines in git worktrees. The main worktree changes only by an approved merge."""

from atoll.mind.workspace.git import WorkspaceError
from atoll.mind.workspace.git_backend import GitBackend
from atoll.mind.workspace.merge import Approval, Approvals
from atoll.mind.workspace.repository import Repository
from atoll.mind.workspace.runner import RunnerConfig, WorkspaceRunner
from atoll.mind.workspace.workspace import Workspace

__all__ = [
    "Approval",
    "Approvals",
    "GitBackend",
    "Repository",
    "RunnerConfig",
    "Workspace",
    "WorkspaceError",
    "WorkspaceRunner",
]
