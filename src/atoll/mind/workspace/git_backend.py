"""Backend that keeps worldlines as git workspaces."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from atoll.evaluation import Evaluation
from atoll.mind import actions
from atoll.mind.actions import Action, Result
from atoll.mind.workspace.git import WorkspaceError, check_path, is_protected
from atoll.mind.workspace.runner import TestResults, WorkspaceRunner
from atoll.mind.workspace.workspace import Workspace
from atoll.mind.worldline import Plan, TextBackend, Worldline

_MAX_OUTPUT_CHARS = 8000  # characters of a file or command output in an action's result
_MAX_FILE_BYTES = 2**20  # size of a file after an edit
_MAX_TEXT_BYTES = 400_000  # size of a file that can be searched and shown
_MAX_MATCHES, _MAX_MATCH_CHARS, _MAX_LISTED = 40, 200, 200
_HALF_DIFFERENT_LINES = 40  # changed lines at which the code counts as half different


class GitBackend:
    """Forks, edits and runs worldlines in git and the sandbox; see `worldline.WorldlineBackend`.

    Args:
        workspace: Stores the worldlines.
        runner: Runs tests and commands.
        protected: Files and folders that worldlines must not change, such as the tests.
    """

    def __init__(self, workspace: Workspace, runner: WorkspaceRunner, protected: tuple[str, ...] = ()) -> None:
        self.workspace, self.runner, self._protected = workspace, runner, protected

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        commit = self.workspace.fork(worldline_id, parent.checkpoint.commit)
        checkpoint = self.workspace.contexts.fork(worldline_id, parent.checkpoint, commit)
        child = TextBackend().fork(parent, plan, worldline_id)
        return replace(child, checkpoint=checkpoint, decision_trace=parent.decision_trace, context=parent.context)

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        execution = PlanExecution(self, worldline.checkpoint.commit)
        for action in plan.actions:
            if not execution.execute(action):
                break
        commit = self._commit_files(worldline, execution, plan.note)
        messages = [{"role": "tool", **result.to_data()} for result in execution.results]
        checkpoint = self.workspace.contexts.add(worldline.checkpoint, messages, commit)
        return replace(
            worldline,
            decision_trace=(*worldline.decision_trace, *(result.action for result in execution.results)),
            tool_history=(*worldline.tool_history, *execution.results),
            checkpoint=checkpoint,
            status="ran",
        )

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        return self.workspace.repository.diff(self._get_commit(base), self._get_commit(worldline))

    def compute_divergence(self, worldline: Worldline, base: Worldline) -> float:
        changes = self.workspace.repository.numstat(self._get_commit(base), self._get_commit(worldline))
        # A binary file has no lines. It counts as half rewritten.
        num_lines = sum(
            _HALF_DIFFERENT_LINES if change.added is None or change.deleted is None else change.added + change.deleted
            for change in changes
        )
        trace_divergence = TextBackend().compute_divergence(worldline, base)
        return (num_lines / (num_lines + _HALF_DIFFERENT_LINES) + trace_divergence) / 2

    def archive(self, worldline: Worldline) -> Worldline:
        self.workspace.archive(worldline.worldline_id)
        return worldline.with_status("archived")

    def discard(self, worldline: Worldline) -> None:
        """Removes a worldline completely."""
        self.workspace.discard(worldline.worldline_id)

    def test(self, worldline: Worldline) -> Evaluation:
        """Returns the share of passing tests, with the failures as feedback."""
        return self.report(worldline).evaluation

    def report(self, worldline: Worldline) -> TestResults:
        """Runs all tests of a worldline."""
        commit = self._get_commit(worldline)
        is_open = self.workspace.get_open_tip(worldline.worldline_id) == commit
        return self.runner.report(commit, worldline.worldline_id if is_open else "")

    @cached_property
    def base_texts(self) -> Mapping[str, str]:
        """The text files of the base, by path."""
        texts, workspace = dict[str, str](), self.workspace
        for entry in workspace.repository.list_files(workspace.base):
            if entry.mode.startswith("100") and entry.size <= _MAX_TEXT_BYTES:
                content = workspace.objects.read_content(entry.sha)
                if b"\0" not in content:
                    texts[entry.path] = content.decode(errors="replace")
        return texts | {path: content.decode(errors="replace") for path, content in self.runner.check_files.items()}

    def read_file(self, commit: str, path: str) -> bytes | None:
        """Returns the content of a file; None if it does not exist.

        Raises:
            WorkspaceError: The path is not a file of the workspace.
        """
        if path in self.runner.check_files:
            return self.runner.check_files[path]
        node = self.workspace.objects.find_node(commit, check_path(path))
        if node is None:
            return None
        size = self.workspace.objects.read_size(node.sha)
        if size > _MAX_FILE_BYTES:
            raise WorkspaceError(f"{path!r} has {size} bytes. Actions can read up to {_MAX_FILE_BYTES}.")
        return self.workspace.objects.read_content(node.sha)

    def require_editable(self, path: str) -> None:
        """Raises a WorkspaceError if worldlines must not change a file."""
        if is_protected(check_path(path), self._protected) or path in self.runner.check_files:
            raise WorkspaceError(f"{path!r} is protected (task.protected). Change another file.")

    def close(self) -> None:
        self.runner.close()
        self.workspace.close()

    def _get_commit(self, worldline: Worldline) -> str:
        return worldline.checkpoint.commit or self.workspace.base

    def _commit_files(self, worldline: Worldline, execution: "PlanExecution", note: str) -> str:
        if not execution.files:
            return worldline.checkpoint.commit
        message = (
            f"{note or 'Change ' + ', '.join(sorted(execution.files))[:200]}\n\nWorldline: {worldline.worldline_id}"
        )
        return self.workspace.write(worldline.worldline_id, [worldline.checkpoint.commit], execution.files, message)


class PlanExecution:
    """Runs actions on a commit. Edits are collected, and later actions see them.

    Args:
        backend: Reads and tests the workspace.
        commit: Commit to start from.
    """

    def __init__(self, backend: GitBackend, commit: str) -> None:
        self._backend, self._commit = backend, commit
        self.files: dict[str, bytes] = {}
        self.results: list[Result] = []

    def execute(self, action: Action) -> bool:
        """Runs one action and records its result. Returns whether it succeeded."""
        try:
            is_ok, output, seconds = self._execute(action)
        except WorkspaceError as error:
            is_ok, output, seconds = False, str(error), 0.0
        self.results.append(Result(action, is_ok, output[:_MAX_OUTPUT_CHARS], seconds))
        return is_ok

    def _execute(self, action: Action) -> tuple[bool, str, float]:
        match action:
            case actions.Read(path, lines):
                return True, _select_lines(_format_file(path, self._read_file(path)), lines), 0.0
            case actions.Edit(path, old, new):
                self._backend.require_editable(path)
                self._require_no_conflict(path)
                self.files |= {path: self._apply_edit(path, old, new)}
                return True, "", 0.0
            case actions.Run(command):
                return _time_call(lambda: self._backend.runner.run_command(command, self._commit, self.files))
            case actions.ListFiles(path):
                return True, _list_paths(self.read_texts(), path), 0.0
            case actions.Search(text):
                return True, _search_texts(self.read_texts(), text), 0.0
            case actions.RunTests():
                return _time_call(self.run_tests)
        return True, "", 0.0

    def run_tests(self) -> tuple[bool, str]:
        """Runs all tests. Returns whether they pass, and the failures."""
        report = self._backend.runner.report(self._commit, changed=self.files)
        return not report.failed and report.evaluation.failure is None, report.evaluation.feedback

    def read_texts(self) -> Mapping[str, str]:
        """Returns the text files of the base with the edits."""
        edited = {path: content.decode(errors="replace") for path, content in self.files.items()}
        return {**self._backend.base_texts, **edited}

    def _read_file(self, path: str) -> bytes | None:
        edited = self.files.get(path)
        return self._backend.read_file(self._commit, path) if edited is None else edited

    def _require_no_conflict(self, path: str) -> None:
        for other in self.files:
            if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
                raise WorkspaceError(f"{path!r} and {other!r} cannot both be files, because one would be a folder.")

    def _apply_edit(self, path: str, old: str, new: str) -> bytes:
        old_content = self._read_file(path)
        if not old:
            content = new.encode("utf-8", "strict") if _check_encodable(new) else b""
        else:
            content = _replace_once(path, old_content, old, new)
        if len(content) > _MAX_FILE_BYTES:
            raise WorkspaceError(
                f"{path!r} would have {len(content)} bytes. A file may have up to {_MAX_FILE_BYTES} after an edit."
            )
        return content


def _time_call(call: Callable[[], tuple[bool, str]]) -> tuple[bool, str, float]:
    start_time = time.perf_counter()
    is_ok, output = call()
    return is_ok, output, time.perf_counter() - start_time


def _check_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WorkspaceError("The new text has characters that UTF-8 cannot encode. Use valid Unicode.") from None
    return True


def _format_file(path: str, content: bytes | None) -> str:
    if content is None:
        raise WorkspaceError(f"File {path!r} not found.")
    if b"\0" in content:
        return f"({path} is binary: {len(content)} bytes)"
    return content.decode(errors="replace")


def _replace_once(path: str, content: bytes | None, old: str, new: str) -> bytes:
    if content is None:
        raise WorkspaceError(f"File {path!r} not found. Use an empty `old` to write a new file.")
    if b"\0" in content:
        raise WorkspaceError(f"{path!r} is binary. Edits can only change text.")
    _check_encodable(new)
    count = content.count(old.encode("utf-8", "replace"))
    if count != 1:
        description = "was not found" if not count else f"occurs {count} times"
        raise WorkspaceError(f"The text to replace in {path!r} {description}. Use a text that occurs exactly once.")
    return content.replace(old.encode(), new.encode())


def _select_lines(text: str, lines: str) -> str:
    """Returns numbered lines of a text in a range such as "10-40"; the whole text without a range."""
    if not lines:
        return text
    first_text, _, last_text = lines.partition("-")
    if not first_text.isdigit() or not (last_text or first_text).isdigit():
        raise WorkspaceError(f"{lines!r:.40} is not a range of lines. Write for example 10-40.")
    first, last = int(first_text), int(last_text or first_text)
    return "\n".join(f"{number}: {line}" for number, line in list(enumerate(text.splitlines(), 1))[first - 1 : last])


def _list_paths(texts: Mapping[str, str], folder: str) -> str:
    prefix = f"{folder.strip('./')}/" if folder.strip("./") else ""
    lines = [f"{path} ({text.count(chr(10))} lines)" for path, text in sorted(texts.items()) if path.startswith(prefix)]
    if not lines:
        raise WorkspaceError(f"Folder {folder!r:.60} not found. List the top to see all files.")
    more = [f"({len(lines) - _MAX_LISTED} more)"] if len(lines) > _MAX_LISTED else []
    return "\n".join([*lines[:_MAX_LISTED], *more])


def _search_texts(texts: Mapping[str, str], query: str) -> str:
    if not query.strip():
        raise WorkspaceError("The text to search for is empty.")
    matches = [
        f"{path}:{number}: {line.strip()[:_MAX_MATCH_CHARS]}"
        for path, text in sorted(texts.items())
        if query in text
        for number, line in enumerate(text.splitlines(), 1)
        if query in line
    ]
    more = [f"({len(matches) - _MAX_MATCHES} more lines)"] if len(matches) > _MAX_MATCHES else []
    return "\n".join([*matches[:_MAX_MATCHES], *more]) or f"{query[:60]!r} was not found."
