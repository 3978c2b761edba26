"""Command-line agents as LLMs: Claude Code, Codex, Gemini, or any program that reads a prompt and writes a response.

An agent usually only returns text. It runs in an empty temporary folder, read-only or with its tools switched off, and
sees few environment variables. Only the user can add a flag that skips its permission checks. With `use_agent_folder`,
an agent edits files in a temporary folder, and its changes become part of the response.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from atoll import errors
from atoll.evaluation import Cost
from atoll.llm.base import LLMError, Response
from atoll.llm.retry_policy import check_range

DEFAULT_TIMEOUT_SECONDS = 600.0
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # raised by unexpected output
_MAX_MESSAGE_CHARS = 300
# Variables for paths, settings and the network; never the keys of other services.
_ENVIRONMENT_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)

type ParseOutput = Callable[[str, str], Response]


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """Command line of one agent, as documented by its maker.

    Attributes:
        arguments: Arguments for non-interactive use; the prompt comes on standard input.
        parse_output: Makes a response of (output, model name); raises one of `PARSE_ERRORS` if it cannot.
        key_variables: Environment variables of this agent.
        final_arguments: Arguments that must come last.
        model_flag: Option that takes the name of a model.
        work_arguments: Replace `arguments` where the agent may edit the files of its folder.
    """

    arguments: Sequence[str]
    parse_output: ParseOutput
    key_variables: Sequence[str] = ()
    final_arguments: Sequence[str] = ()
    model_flag: str = "--model"
    work_arguments: Sequence[str] = ()


class AgentFolder(Protocol):
    """Folder in which a command-line agent works, instead of an empty one."""

    @property
    def note(self) -> str:
        """Text before the prompt that says what the folder is."""

    def open(self) -> AbstractContextManager[tuple[Path, Callable[[], str]]]:
        """Makes the folder. Returns it, and a function that returns the changes of the agent as text."""


_agent_folder: ContextVar[AgentFolder | None] = ContextVar("atoll_agent_folder", default=None)


@contextlib.contextmanager
def use_agent_folder(folder: AgentFolder) -> Iterator[None]:
    """Lets command-line agents work in a folder. Other LLMs ignore it."""
    token = _agent_folder.set(folder)
    try:
        yield
    finally:
        _agent_folder.reset(token)


def _parse_claude(output: str, model: str) -> Response:
    data = json.loads(output)
    if data.get("is_error") or not isinstance(data["result"], str):
        raise ValueError(str(data.get("result") or data.get("subtype")))
    usage = data.get("usage") or {}
    cached_tokens = [usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("creation", "read")]
    tokens = (int(usage.get("input_tokens") or 0) + sum(cached_tokens), int(usage.get("output_tokens") or 0))
    return Response(data["result"], model, Cost(0.0, *tokens, float(data.get("total_cost_usd") or 0.0)))


def _parse_codex(output: str, model: str) -> Response:
    text, usage = "", dict[str, int]()
    for line in output.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        match event.get("type"):
            case "item.completed" if event["item"].get("type") == "agent_message":
                text = event["item"]["text"]
            case "turn.completed":
                usage = event.get("usage") or {}
            case "turn.failed" | "error":
                raise ValueError(str(event.get("error") or event.get("message")))
    return Response(text, model, Cost(0.0, int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0))))


def _parse_gemini(output: str, model: str) -> Response:
    data = json.loads(output[output.index("{") :])
    if data.get("error"):
        raise ValueError(str(data["error"]))
    usages = [model.get("tokens") or {} for model in ((data.get("stats") or {}).get("models") or {}).values()]
    tokens = [sum(int(usage.get(kind) or 0) for usage in usages) for kind in ("prompt", "candidates")]
    return Response(data["response"], model, Cost(0.0, *tokens))


def _parse_plain(output: str, model: str) -> Response:
    return Response(output, model)


_CLAUDE_TOOLS = "Bash,Edit,MultiEdit,Write,NotebookEdit,Read,Glob,Grep,WebFetch,WebSearch,Task,Agent,Skill"

_CLAUDE_WORK_TOOLS = (
    "--allowedTools",
    "Edit,MultiEdit,Write,Read,Glob,Grep",
    "--disallowedTools",
    "WebFetch,WebSearch",
)

# Executes the program. Before that, it asks the kernel to kill the process group as soon as our end of a pipe closes.
# That happens when Atoll is killed; the agent could otherwise keep running, and spending, for ten minutes.
_KILL_WITH_PARENT = """
import fcntl, os, signal, sys
pipe = int(sys.argv[1])
if hasattr(fcntl, "F_SETSIG"):
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]} does not start: {error.strerror}")
"""

AGENTS: Mapping[str, AgentCommand] = {
    "claude": AgentCommand(
        ("-p", "--output-format", "json", "--permission-mode", "default", "--disallowedTools", _CLAUDE_TOOLS),
        _parse_claude,
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        work_arguments=("-p", "--output-format", "json", "--permission-mode", "acceptEdits", *_CLAUDE_WORK_TOOLS),
    ),
    "codex": AgentCommand(
        ("exec", "--sandbox", "read-only", "--skip-git-repo-check", "--json"),
        _parse_codex,
        ("CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_HOME"),
        final_arguments=("-",),  # the prompt is on standard input
        work_arguments=("exec", "--sandbox", "workspace-write", "--skip-git-repo-check", "--json"),
    ),
    "gemini": AgentCommand(
        ("--output-format", "json", "--approval-mode", "default"),
        _parse_gemini,
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"),
        work_arguments=("--output-format", "json", "--approval-mode", "auto_edit"),
    ),
}


def make_command_line_llm(
    command_text: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS, cli_arguments: Sequence[str] = ()
) -> "CommandLineLLM":
    """Returns the LLM for `claude`, `claude/MODEL`, or any command that reads a prompt and writes a response.

    Raises:
        SetupError: The command is not installed.
    """
    try:
        arguments = shlex.split(command_text)
    except ValueError as error:
        raise errors.SetupError(
            f"'cli:{command_text}' is not a valid command line: {error}. Check its quotes."
        ) from None
    name, slash, model = (arguments or [""])[0].partition("/")
    if name not in AGENTS:
        return CommandLineLLM(arguments, AgentCommand((), _parse_plain), command_text, timeout_seconds=timeout_seconds)
    agent = AGENTS[name]
    model_arguments = [agent.model_flag, model] if slash and model else []
    command = [name, *agent.arguments, *model_arguments, *cli_arguments, *arguments[1:], *agent.final_arguments]
    return CommandLineLLM(command, agent, model or name, timeout_seconds=timeout_seconds)


class CommandLineLLM:
    """Runs a program once per prompt. Several threads call it at once."""

    def __init__(
        self,
        command: Sequence[str],
        agent: AgentCommand,
        name: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Finds the program.

        Raises:
            SetupError: It is not installed.
        """
        executable = shutil.which(command[0]) if command else None
        if executable is None:
            known_names = ", ".join(f"cli:{agent_name}" for agent_name in AGENTS)
            raise errors.SetupError(
                f"Command {(command or [''])[0]!r} not found. Install it, or write {known_names} or cli:COMMAND."
            )
        self.command = [os.path.abspath(executable), *command[1:]]
        self._agent, self._name = agent, name
        self._timeout_seconds = check_range("timeout_seconds", timeout_seconds, above=0)

    def __repr__(self) -> str:
        return f"CommandLineLLM({shlex.join(self.command)})"

    def __call__(self, prompt: str) -> Response:
        """Returns the response of the program.

        Raises:
            LLMError: It failed, took too long, or wrote no response.
        """
        started_at = time.perf_counter()
        agent_folder, changes = _agent_folder.get(), ""
        if agent_folder is None:
            with tempfile.TemporaryDirectory(prefix="atoll-agent-") as name:
                output = self._run(prompt, Path(name), self.command)
        else:
            with agent_folder.open() as (folder, format_changes):
                output = self._run(f"{agent_folder.note}{prompt}", folder, self._get_work_command())
                changes = format_changes()
        try:
            response = self._agent.parse_output(output, self._name)
        except PARSE_ERRORS as error:
            raise self._make_error(f"its output is not a response ({error})") from None
        if not response.text.strip() and not changes:
            raise self._make_error("it wrote nothing")
        text = f"{response.text}\n\n{changes}" if changes else response.text
        return replace(response, text=text, cost=replace(response.cost, seconds=time.perf_counter() - started_at))

    def _get_work_command(self) -> list[str]:
        """Returns the command with the permission to edit files of its folder."""
        work_arguments, num_arguments = self._agent.work_arguments, len(self._agent.arguments)
        if not work_arguments:
            return self.command
        return [self.command[0], *work_arguments, *self.command[1 + num_arguments :]]

    def _run(self, prompt: str, folder: Path, command: Sequence[str]) -> str:
        environment = {
            name: os.environ[name]
            for name in (*_ENVIRONMENT_VARIABLES, *self._agent.key_variables)
            if name in os.environ
        }
        with contextlib.ExitStack() as cleanup:
            read_fd, write_fd = os.pipe()
            cleanup.callback(os.close, write_fd)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KILL_WITH_PARENT, str(read_fd), *command],
                pass_fds=[read_fd],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**environment, "TERM": "dumb", "NO_COLOR": "1"},
                start_new_session=True,
            )
            cleanup.callback(_kill, process)
            os.close(read_fd)
            try:
                stdout, stderr = process.communicate(prompt.encode(errors="replace"), self._timeout_seconds)
            except subprocess.TimeoutExpired:
                raise self._make_error(
                    f"no response within {self._timeout_seconds:g} seconds", is_transient=True
                ) from None
        if process.returncode:
            message = " ".join((stderr or stdout).decode(errors="replace").split())
            raise self._make_error(f"exit status {process.returncode}, {self._redact_keys(message)}")
        return stdout.decode(errors="replace")

    def _redact_keys(self, text: str) -> str:
        """Returns the end of a message, without the keys of the agent."""
        for name in self._agent.key_variables:
            if key := os.environ.get(name, "").strip():
                text = text.replace(key, "***")
        return text[-_MAX_MESSAGE_CHARS:]

    def _make_error(self, reason: str, *, is_transient: bool = False) -> LLMError:
        command = os.path.basename(self.command[0])
        return LLMError(f"{command} did not respond: {reason}. Try it by hand.", is_transient=is_transient)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the program and its children, even if the program has already ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
