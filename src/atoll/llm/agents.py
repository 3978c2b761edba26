"""Agents on the command line as models: Claude Code, Codex, Gemini, or any program that reads a prompt and replies.

An agent is asked for words and nothing else. It runs in an empty folder that is deleted afterwards, in its read-only
mode or with its tools switched off, with few variables of the environment, and gets no flag that skips its permission
checks unless the user adds one.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll import errors
from atoll.evaluation import Cost
from atoll.llm.llm import NoReply, Reply
from atoll.llm.policy import checked

DEFAULT_SECONDS = 600.0
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # what reading odd output raises
_MAX_SHOWN = 300
# What a program needs to find itself, its settings and the network; no key of anybody else's.
_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)

type Read = Callable[[str, str], Reply]


@dataclass(frozen=True, slots=True)
class Agent:
    """How one program is asked, as its documents say.

    Attributes:
        arguments: Of its mode without a terminal; the prompt comes over standard input.
        read: Makes the reply of (its output, the model's name); raises ValueError or LookupError if it is none.
        keys: Variables of the environment that are its own.
        last: Arguments that must stand at the end.
        model_flag: Before the name of a model.
    """

    arguments: Sequence[str]
    read: Read
    keys: Sequence[str] = ()
    last: Sequence[str] = ()
    model_flag: str = "--model"


def _read_claude(output: str, model: str) -> Reply:
    found = json.loads(output)
    if found.get("is_error") or not isinstance(found["result"], str):
        raise ValueError(str(found.get("result") or found.get("subtype")))
    usage = found.get("usage") or {}
    cached = [usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("creation", "read")]
    tokens = (int(usage.get("input_tokens") or 0) + sum(cached), int(usage.get("output_tokens") or 0))
    return Reply(found["result"], model, Cost(0.0, *tokens, float(found.get("total_cost_usd") or 0.0)))


def _read_codex(output: str, model: str) -> Reply:
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
    return Reply(text, model, Cost(0.0, int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0))))


def _read_gemini(output: str, model: str) -> Reply:
    found = json.loads(output[output.index("{") :])
    if found.get("error"):
        raise ValueError(str(found["error"]))
    used = [each.get("tokens") or {} for each in ((found.get("stats") or {}).get("models") or {}).values()]
    tokens = [sum(int(each.get(kind) or 0) for each in used) for kind in ("prompt", "candidates")]
    return Reply(found["response"], model, Cost(0.0, *tokens))


def _read_plain(output: str, model: str) -> Reply:
    return Reply(output, model)


_CLAUDE_TOOLS = "Bash,Edit,MultiEdit,Write,NotebookEdit,Read,Glob,Grep,WebFetch,WebSearch,Task,Agent,Skill"

# Becomes the program, but first has the kernel kill it and all that it starts as soon as our end of a pipe is closed:
# it is when we are killed with no time to end it, and it could go on for ten minutes and spend.
_LEASH = """
import fcntl, os, signal, sys
life = int(sys.argv[1])
if hasattr(fcntl, "F_SETSIG"):
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]} cannot be started: {error.strerror}")
"""

AGENTS: Mapping[str, Agent] = {
    "claude": Agent(
        ("-p", "--output-format", "json", "--permission-mode", "default", "--disallowedTools", _CLAUDE_TOOLS),
        _read_claude,
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
    ),
    "codex": Agent(
        ("exec", "--sandbox", "read-only", "--skip-git-repo-check", "--json"),
        _read_codex,
        ("CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_HOME"),
        last=("-",),  # the prompt is on standard input
    ),
    "gemini": Agent(
        ("--output-format", "json", "--approval-mode", "default"),
        _read_gemini,
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"),
    ),
}


def make(rest: str, *, timeout_seconds: float = DEFAULT_SECONDS, cli_arguments: Sequence[str] = ()) -> "CommandLine":
    """Returns the model behind `claude`, `claude/MODEL`, or any command that reads a prompt and writes a reply.

    Raises:
        SetupError: The command is not installed.
    """
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise errors.SetupError(f"The command of 'cli:{rest}' cannot be read: {error}.") from None
    name, slash, model = (words or [""])[0].partition("/")
    if name not in AGENTS:
        return CommandLine(words, Agent((), _read_plain), rest, timeout_seconds=timeout_seconds)
    agent = AGENTS[name]
    chosen = [agent.model_flag, model] if slash and model else []
    command = [name, *agent.arguments, *chosen, *cli_arguments, *words[1:], *agent.last]
    return CommandLine(command, agent, model or name, timeout_seconds=timeout_seconds)


class CommandLine:
    """Asks a program, once per prompt; called from several threads at once."""

    def __init__(
        self, command: Sequence[str], agent: Agent, name: str, *, timeout_seconds: float = DEFAULT_SECONDS
    ) -> None:
        """Finds the program.

        Raises:
            SetupError: It is not installed.
        """
        found = shutil.which(command[0]) if command else None
        if found is None:
            known = ", ".join(f"cli:{each}" for each in AGENTS)
            raise errors.SetupError(
                f"There is no command {(command or [''])[0]!r} here: install it, or write {known} or cli:COMMAND."
            )
        self.command = [os.path.abspath(found), *command[1:]]
        self._agent, self._name = agent, name
        self._seconds = checked("timeout_seconds", timeout_seconds, above=0)

    def __repr__(self) -> str:
        return f"CommandLine({shlex.join(self.command)})"

    def __call__(self, prompt: str) -> Reply:
        """Returns what it said.

        Raises:
            NoReply: It failed, took too long, or said nothing that is a reply.
        """
        since = time.perf_counter()
        output = self._run(prompt)
        try:
            reply = self._agent.read(output, self._name)
        except UNREADABLE as error:
            raise self._no_reply(f"what it wrote is no reply ({error})") from None
        if not reply.text.strip():
            raise self._no_reply("it wrote nothing")
        return replace(reply, cost=replace(reply.cost, seconds=time.perf_counter() - since))

    def _run(self, prompt: str) -> str:
        kept = {name: os.environ[name] for name in (*_VARIABLES, *self._agent.keys) if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="atoll-agent-") as empty, contextlib.ExitStack() as at_end:
            life, held = os.pipe()
            at_end.callback(os.close, held)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LEASH, str(life), *self.command],
                pass_fds=[life],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=empty,
                env={**kept, "TERM": "dumb", "NO_COLOR": "1"},
                start_new_session=True,
            )
            at_end.callback(_end, process)
            os.close(life)
            try:
                out, err = process.communicate(prompt.encode(errors="replace"), self._seconds)
            except subprocess.TimeoutExpired:
                raise self._no_reply(f"nothing came within {self._seconds:g} seconds", is_transient=True) from None
        if process.returncode:
            said = " ".join((err or out).decode(errors="replace").split())
            raise self._no_reply(f"exit status {process.returncode}, {self._shown(said)}")
        return out.decode(errors="replace")

    def _shown(self, said: str) -> str:
        """Returns what it said without the keys that it was given."""
        for name in self._agent.keys:
            if key := os.environ.get(name, "").strip():
                said = said.replace(key, "***")
        return said[-_MAX_SHOWN:]

    def _no_reply(self, why: str, *, is_transient: bool = False) -> NoReply:
        command = os.path.basename(self.command[0])
        return NoReply(f"{command} gave no reply: {why}. Try it by hand.", is_transient=is_transient)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program and whatever it started, also when it has ended itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
