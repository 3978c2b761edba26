"""Worldlines that are workspaces, behind the protocol that all kinds share."""

import time
from collections.abc import Callable
from dataclasses import replace

from atoll.evaluation import Evaluation
from atoll.mind import actions, kinds
from atoll.mind.actions import Action, Result
from atoll.mind.workspace.checks import Checks
from atoll.mind.workspace.names import Refused, checked_path, is_protected
from atoll.mind.workspace.workspace import Workspace
from atoll.mind.worldline import Plan, Worldline

_LONGEST_OUTPUT = 8000  # characters of a file or of what a command printed that an action tells
_LARGEST_FILE = 2**20  # bytes that an edit may leave in a file
_HALF_WAY = 40  # changed lines at which the code counts as half different


class WorkspaceKind:
    """Forks, edits and runs worldlines in git and the jail; see `kinds.Kind`.

    Args:
        workspace: Where they are kept.
        checks: Where they are tested.
        protected: Files and folders that no worldline may change, such as the tests that judge it.
    """

    def __init__(self, workspace: Workspace, checks: Checks, protected: tuple[str, ...] = ()) -> None:
        self.workspace, self.checks, self._protected = workspace, checks, protected

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        commit = self.workspace.fork(worldline_id, parent.checkpoint.commit)
        point = self.workspace.contexts.fork(worldline_id, parent.checkpoint, commit)
        made = kinds.TextKind().fork(parent, plan, worldline_id)
        return replace(made, checkpoint=point, decision_trace=parent.decision_trace, context=parent.context)

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        done = _Doing(self, worldline.checkpoint.commit)
        for action in plan.actions:
            if not done.do(action):
                break
        commit = self._committed(worldline, done, plan.note)
        messages = [{"role": "tool", **each.to_data()} for each in done.results]
        point = self.workspace.contexts.add(worldline.checkpoint, messages, commit)
        return replace(
            worldline,
            decision_trace=(*worldline.decision_trace, *(each.action for each in done.results)),
            tool_history=(*worldline.tool_history, *done.results),
            checkpoint=point,
            status="ran",
        )

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        return self.workspace.repository.diff(self._commit(base), self._commit(worldline))

    def divergence(self, worldline: Worldline, base: Worldline) -> float:
        changes = self.workspace.repository.numstat(self._commit(base), self._commit(worldline))
        # A binary file has no lines: it counts as one that was half rewritten.
        lines = sum(
            _HALF_WAY if each.added is None or each.deleted is None else each.added + each.deleted for each in changes
        )
        rest = kinds.TextKind().divergence(worldline, base)
        return (lines / (lines + _HALF_WAY) + rest) / 2

    def archive(self, worldline: Worldline) -> Worldline:
        self.workspace.archive(worldline.worldline_id)
        return worldline.with_status("archived")

    def discard(self, worldline: Worldline) -> None:
        """Leaves nothing of a worldline."""
        self.workspace.discard(worldline.worldline_id)

    def test(self, worldline: Worldline) -> Evaluation:
        """Returns the share of tests that pass in a worldline, and in words how the others failed."""
        commit = self._commit(worldline)
        is_open = self.workspace.open_at(worldline.worldline_id) == commit
        return self.checks.test(commit, worldline.worldline_id if is_open else "")

    def read(self, commit: str, path: str) -> bytes | None:
        """Returns the content of a file, None if there is none.

        Raises:
            Refused: It is no file of the workspace.
        """
        node = self.workspace.objects.at(commit, checked_path(path))
        if node is None:
            return None
        size = self.workspace.objects.size(node.sha)
        if size > _LARGEST_FILE:
            raise Refused(f"{path!r} has {size} bytes, and actions take files of up to {_LARGEST_FILE}.")
        return self.workspace.objects.body(node.sha)

    def require_free(self, path: str) -> None:
        """Checks that worldlines may change a file.

        Raises:
            Refused: They may not.
        """
        if is_protected(checked_path(path), self._protected):
            raise Refused(f"{path!r} is protected (task.protected): it judges worldlines, and they leave it alone.")

    def close(self) -> None:
        self.checks.close()
        self.workspace.close()

    def _commit(self, worldline: Worldline) -> str:
        return worldline.checkpoint.commit or self.workspace.base

    def _committed(self, worldline: Worldline, done: "_Doing", note: str) -> str:
        if not done.files:
            return worldline.checkpoint.commit
        message = f"{note or 'Change ' + ', '.join(sorted(done.files))[:200]}\n\nWorldline: {worldline.worldline_id}"
        return self.workspace.write(worldline.worldline_id, [worldline.checkpoint.commit], done.files, message)


class _Doing:
    """Does the actions of one plan; edits are gathered and committed once."""

    def __init__(self, kind: WorkspaceKind, commit: str) -> None:
        self._kind, self._commit = kind, commit
        self.files: dict[str, bytes] = {}
        self.results: list[Result] = []

    def do(self, action: Action) -> bool:
        """Does one action; False: it failed, and its result says why."""
        try:
            is_ok, output, seconds = self._done(action)
        except Refused as refusal:
            is_ok, output, seconds = False, str(refusal), 0.0
        self.results.append(Result(action, is_ok, output[:_LONGEST_OUTPUT], seconds))
        return is_ok

    def _done(self, action: Action) -> tuple[bool, str, float]:
        match action:
            case actions.Read(path):
                return True, _shown(path, self._body(path)), 0.0
            case actions.Edit(path, old, new):
                self._kind.require_free(path)
                self._require_alone(path)
                self.files |= {path: self._edited(path, old, new)}
                return True, "", 0.0
            case actions.Run(command):
                return _timed(lambda: self._kind.checks.run(command, self._commit, self.files))
        return True, "", 0.0

    def _body(self, path: str) -> bytes | None:
        known = self.files.get(path)
        return self._kind.read(self._commit, path) if known is None else known

    def _require_alone(self, path: str) -> None:
        for other in self.files:
            if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
                raise Refused(f"{path!r} and {other!r} cannot both be files: one would be a folder.")

    def _edited(self, path: str, old: str, new: str) -> bytes:
        there = self._body(path)
        if not old:
            body = new.encode("utf-8", "strict") if _is_text(new) else b""
        else:
            body = _replaced(path, there, old, new)
        if len(body) > _LARGEST_FILE:
            raise Refused(f"{path!r} would have {len(body)} bytes: an edit may leave up to {_LARGEST_FILE} in a file.")
        return body


def _timed(call: Callable[[], tuple[bool, str]]) -> tuple[bool, str, float]:
    since = time.perf_counter()
    is_ok, output = call()
    return is_ok, output, time.perf_counter() - since


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("The new text has characters that no file can hold: write it in Unicode.") from None
    return True


def _shown(path: str, body: bytes | None) -> str:
    if body is None:
        raise Refused(f"There is no file {path!r}.")
    if b"\0" in body:
        return f"({path} is binary: {len(body)} bytes)"
    return body.decode(errors="replace")


def _replaced(path: str, body: bytes | None, old: str, new: str) -> bytes:
    if body is None:
        raise Refused(f"There is no file {path!r} to change: an edit with an empty `old` writes a new one.")
    if b"\0" in body:
        raise Refused(f"{path!r} is binary: an edit changes text.")
    _is_text(new)
    found = body.count(old.encode("utf-8", "replace"))
    if found != 1:
        told = "is not there" if not found else f"stands there {found} times"
        raise Refused(f"The text to replace in {path!r} {told}: give one that stands there once.")
    return body.replace(old.encode(), new.encode())
