"""Tools of an author in a workspace: list, search, read, edit, test and run, as lines of a response."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from atoll import llm, mutation
from atoll.mind import actions
from atoll.mind.actions import Action, Edit, Result
from atoll.mind.workspace import sandbox_job
from atoll.mind.workspace.edits import fit_edits, format_edits, make_edits
from atoll.mind.workspace.git import WorkspaceError, check_path
from atoll.mind.workspace.git_backend import GitBackend, PlanExecution

TOOL_TEXT = """You have tools. To use them, write one or more of these lines and then stop. The output follows.
TOOL: list FOLDER
TOOL: search TEXT
TOOL: read PATH 10-40
TOOL: test
TOOL: run python SCRIPT.py
To edit, write FILE blocks as described below. They change your private copy, and the next tools see it. A response with
FILE blocks and without a TOOL line is your final plan. Write FILE blocks and the line TOOL: test together to test them
first. To finish without further edits, write the line DONE."""
_TOOL_LINE = re.compile(r"^[ \t>*`-]*TOOL:[ \t]*(\w+)[ \t]*(.*?)[ \t`]*$", re.MULTILINE | re.IGNORECASE)
_MAX_TOOLS = 8  # per response
_MAX_OUTPUT_CHARS = 6000  # of all tools of one response
_FOLDER_NOTE = (
    "The repository is in your current folder. Use your own tools instead of TOOL lines and FILE blocks: read and edit "
    "the files there. Your changes to these files are your plan.\n\n"
)


class WorkspaceTools:
    """Tools for one plan; see `tasks.problem.ToolSession`.

    Args:
        backend: Reads and tests the workspace.
        evaluate: Tests a plan and returns whether it is solved, and the feedback. Results are shared with the search.
    """

    def __init__(self, backend: GitBackend, evaluate: Callable[[str], tuple[bool, str]]) -> None:
        self._backend, self._evaluate = backend, evaluate
        self._execution = PlanExecution(backend, backend.workspace.base)

    @property
    def results(self) -> Sequence[Result]:
        return self._execution.results

    def use_tools(self, response: str, num_left: int) -> str | None:
        text = mutation.clean_response(response)
        requests = [_parse_tool(match[1].lower(), match[2]) for match in _TOOL_LINE.finditer(text)][:_MAX_TOOLS]
        if not requests:
            return None
        first_result = len(self.results)
        self._edit(text)
        outputs = [_describe(result) for result in self.results[first_result:]]
        outputs += [self._run_tool(request) for request in requests]
        left = f"{num_left} further responses with tools are left." if num_left else "Write your final FILE blocks now."
        return f"{_shorten(outputs)}\n\n{left}"

    def read_plan(self, response: str) -> str | None:
        self._edit(mutation.clean_response(response))
        base_texts = self._backend.base_texts
        edits = [
            edit
            for path, content in self._execution.files.items()
            for edit in make_edits(path, base_texts.get(path, ""), content.decode(errors="replace"))
        ]
        return format_edits(edits) or None

    @contextmanager
    def work_in_folder(self) -> Iterator[None]:
        with llm.use_agent_folder(_AgentFolder(self._backend, self._execution)):
            yield

    def _edit(self, text: str) -> None:
        """Applies the FILE blocks of a response."""
        for edit in fit_edits(text, self._execution.read_texts().get):
            self._execution.execute(edit)

    def _run_tool(self, request: Action | str) -> str:
        if isinstance(request, str):
            return request
        if isinstance(request, actions.RunTests):
            is_ok, output = self._evaluate(self.read_plan("") or "")
            self._execution.results.append(Result(request, is_ok, output[:_MAX_OUTPUT_CHARS]))
        else:
            self._execution.execute(request)
        return _describe(self.results[-1])


def _parse_tool(name: str, argument: str) -> Action | str:
    """Returns the action of a line, or why there is none."""
    match name:
        case "list":
            return actions.ListFiles(argument)
        case "search" if argument:
            return actions.Search(argument.strip("\"'"))
        case "read" if argument:
            path, _, lines = argument.partition(" ")
            return actions.Read(path.rstrip(":,"), lines.strip().removeprefix("lines").strip())
        case "test":
            return actions.RunTests()
        case "run" if argument:
            return actions.Run(tuple(argument.split()))
    return f"TOOL: {name} {argument}: unknown. Use list, search TEXT, read PATH, test or run COMMAND."


def _describe(result: Result) -> str:
    match result.action:
        case Edit(path):
            name = f"edit {path}"
        case actions.Run(command):
            name = f"run {' '.join(command)}"
        case action:
            values = [str(getattr(action, field)) for field in action.__slots__]
            name = " ".join([actions.ACTION_NAMES[type(action)], *values]).strip()
    output = result.output or ("ok" if result.is_ok else "failed")
    return f"Output of {name}:\n{output}"


def _shorten(outputs: Sequence[str]) -> str:
    max_chars = _MAX_OUTPUT_CHARS // max(1, len(outputs))
    return "\n\n".join(
        output if len(output) <= max_chars else f"{output[:max_chars]}\n(shortened; read fewer lines)"
        for output in outputs
    )


@dataclass(frozen=True, slots=True)
class _AgentFolder:
    """Temporary folder with the files of a worldline, without git. Its changes become edits of the session."""

    backend: GitBackend
    execution: PlanExecution
    note: str = _FOLDER_NOTE

    @contextmanager
    def open(self) -> Iterator[tuple[Path, Callable[[], str]]]:
        with tempfile.TemporaryDirectory(prefix="atoll-worldline-") as name:
            folder = Path(name)
            workspace = self.backend.workspace
            for entry in workspace.repository.list_files(workspace.base):
                if entry.mode.startswith("100"):
                    path = folder / entry.path
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(workspace.objects.read_content(entry.sha))
                    path.chmod(0o755 if entry.mode == sandbox_job.PROGRAM_MODE else 0o644)
            for written_path, text in self.execution.read_texts().items():
                (folder / written_path).parent.mkdir(parents=True, exist_ok=True)
                (folder / written_path).write_text(text, "utf-8", newline="")
            before = _read_texts(folder)
            yield folder, lambda: self._format_changes(before, _read_texts(folder))

    def _format_changes(self, before: Mapping[str, str], after: Mapping[str, str]) -> str:
        """Returns the changed files as edits. Files that cannot be changed are left out."""
        edits = list[Edit]()
        for path, text in sorted(after.items()):
            if before.get(path) != text:
                try:
                    self.backend.require_editable(path)
                except WorkspaceError:
                    continue
                edits += make_edits(path, before.get(path, ""), text)
        return format_edits(edits)


def _read_texts(folder: Path) -> dict[str, str]:
    texts = dict[str, str]()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file() or "__pycache__" in name or name.startswith(".git/"):
            continue
        content = path.read_bytes()[:_MAX_AGENT_BYTES]
        try:
            texts[check_path(name)] = content.decode()
        except (UnicodeDecodeError, WorkspaceError):
            continue
    return texts


_MAX_AGENT_BYTES = 2**20
