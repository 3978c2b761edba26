"""Sandbox whose evaluator and programs run apart: two fork servers for each slot, connected by named pipes."""

import ast
import contextlib
import importlib.util
import json
import os
import select
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from atoll import errors
from atoll.candidate import JSON
from atoll.sandbox import job_pickle, levels
from atoll.sandbox.apart import stand_in
from atoll.sandbox.base import MakeJob, Sandbox, SandboxResult
from atoll.sandbox.limits import Limits
from atoll.sandbox.permissions import Permissions
from atoll.sandbox.process.client import ForkServerClient, WorkerError
from atoll.sandbox.process.pool import ProcessPool

APART_NOTE = "in a sandbox of its own, apart from the candidates"  # for the header of a run
_POLL_MS = 200.0  # interval of liveness checks
_GRACE_SECONDS = 10.0
_LEFT_MESSAGE = "it ended its process before the evaluation was over"
_TOLERANCE, _NOISE_FACTOR = 1e-9, 3.0
_SLOWDOWN, _SLOW_SECONDS = 2.0, 0.5  # apart may take this much longer than together


class ApartSandbox(ProcessPool):
    """Runs the evaluator in one process and the program in another, each new for every request.

    The evaluator sees a stand-in module for the program (`stand_in`). The program reaches the evaluator only by the
    values that it returns, so it cannot change the evaluator, read its data or forge a score.

    Args:
        make_job: Creates the evaluator's job. Of a request with the key "program", it gets all but this value.
        make_program_job: Creates the job that runs programs.
        limits: Limits of the evaluator, and limits of the program.
        num_workers: Number of parallel requests.
        level: `L1`, `L2` or `L3`; None: the strongest level of this machine.
        permissions: Permissions of the evaluator.
        program_permissions: Permissions of the program.
        probe_result: Features of this machine; None: probe it.

    Raises:
        SetupError: This machine does not have the level, a limit is invalid, or a job cannot be pickled.
    """

    def __init__(
        self,
        make_job: MakeJob,
        make_program_job: MakeJob,
        limits: Limits,
        num_workers: int = 1,
        *,
        level: str | None = None,
        permissions: Permissions,
        program_permissions: Permissions,
        probe_result: levels.Probe | None = None,
    ) -> None:
        self._probe = levels.probe() if probe_result is None else probe_result
        strongest = levels.get_level(self._probe)
        self._level = level or strongest
        if self._level not in levels.ISOLATED_LEVELS or self._level > strongest:
            raise errors.SetupError(levels.describe_refusal(self._probe, self._level))
        self._permissions = (permissions, program_permissions)
        self._packed_program_job = job_pickle.pack_job(make_program_job)
        super().__init__(make_job, limits, num_workers, None)

    @property
    def level(self) -> str:
        return self._level

    def _start_process(self) -> "PairedClient":  # type: ignore[override]  # it has all that the pool uses
        return PairedClient(self._limits, self._level, self._probe, self._permissions, self._packed_program_job)

    def _encode(self, request: JSON) -> bytes:
        program: Any = request  # a function; its evaluator may read the source
        rest: Any = request
        if isinstance(request, dict) and "program" in request:
            program, rest = request["program"], {name: item for name, item in request.items() if name != "program"}
        elif isinstance(request, dict):
            program = request["content"]
        return json.dumps(program).encode() + b"\n" + json.dumps(rest).encode()


class PairedClient:
    """Fork server of the evaluator and fork server of its programs, with the interface of one `WorkerClient`."""

    def __init__(
        self,
        limits: Limits,
        level: str,
        probe_result: levels.Probe,
        permissions: tuple[Permissions, Permissions],
        packed_program_job: bytes,
    ) -> None:
        self._limits, self._packed_program_job = limits, packed_program_job
        self.is_spent = False
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"atoll-{os.getpid()}-"))
            self._link = os.path.join(self._folder, "link")
            os.mkdir(self._link)
            if os.geteuid() == 0:  # a sandbox of root runs as another user
                os.chmod(self._folder, 0o711)
                os.chmod(self._link, 0o755)
            seconds = "" if limits.call_seconds is None else f"{limits.call_seconds:g}"
            variable = f"{self._link}|{limits.call_mb * 2**20}|{seconds}"
            clients = []
            for permission in permissions:
                env = {**permission.env, stand_in.LINK_VARIABLE: variable}
                client = ForkServerClient(limits, level, probe_result, replace(permission, env=env), self._link)
                stack.callback(client.end)
                clients.append(client)
            self._evaluator, self._program = clients
            self._resources = stack.pop_all()

    def start(self, path: Sequence[str], packed_job: bytes) -> None:
        """Creates the job of the evaluator and that of the programs; see `WorkerClient.start`."""
        self._evaluator.start(path, packed_job)
        self._program.start(path, self._packed_program_job)

    def is_ready(self) -> bool:
        return self._evaluator.is_ready() and self._program.is_ready()

    def run_request(self, body: bytes) -> SandboxResult:
        """Runs the evaluator on the program; if the program's process ends, the evaluation failed."""
        program, _, request = body.partition(b"\n")
        start_time, self._overuse = time.perf_counter(), ""
        self._renew_pipes()
        self._program.begin(program)
        self._evaluator.begin(request)
        if self._wait():
            result = self._evaluator.finish()
            self._program.cancel()
            program_result = self._program.finish()
        else:  # the program ended: by itself, by a limit, or by an attack on its own result
            program_result = self._program.finish()
            self._evaluator.cancel()
            self._evaluator.finish()
            failure = program_result.failure or _LEFT_MESSAGE
            result = replace(program_result, value=None, failure=failure, output="")
        self.is_spent = self._evaluator.is_spent or self._program.is_spent
        result = replace(result, value=None, failure=self._overuse) if self._overuse else result
        output = "\n".join(text for text in (program_result.output, result.output) if text)
        return replace(result, output=output, seconds=time.perf_counter() - start_time)

    def kill(self) -> None:
        self._evaluator.kill()
        self._program.kill()

    def end(self) -> None:
        self.kill()
        self._resources.close()

    def _renew_pipes(self) -> None:
        """Creates new pipes, so that nothing of an earlier program is left in them, not even their times."""
        for name in (stand_in.CALLS, stand_in.REPLIES):
            path = os.path.join(self._link, name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            os.mkfifo(path, 0o600)
            if os.geteuid() == 0:
                os.chmod(path, 0o666)

    def _wait(self) -> bool:
        """Waits for the first result; returns whether it is the evaluator's."""
        poll = select.poll()
        poll.register(self._evaluator.channel, select.POLLIN)
        poll.register(self._program.channel, select.POLLIN)
        deadline = time.monotonic() + self._limits.seconds + _GRACE_SECONDS
        while time.monotonic() < deadline:
            ready = dict(poll.poll(_POLL_MS))
            if ready:
                return self._evaluator.channel.fileno() in ready
            for client in (self._evaluator, self._program):
                try:
                    client.check_usage()
                except WorkerError as error:
                    self._overuse = str(error)
                    client.kill()
        return True


def compare_scoring(apart: Sandbox, together: Sandbox, request: JSON) -> str:
    """Scores an initial function in both ways; returns why it cannot be scored apart, or an empty text.

    The results are lists of plain data. Their numbers must agree, up to the noise between two evaluations together.
    """
    results = [sandbox.run(request) for sandbox in (together, apart)]
    failures = [_find_failure(result) for result in results]
    if failures[0]:
        return "the initial function fails"
    if failures[1]:
        return f"apart, the initial function fails: {failures[1]}"
    seconds, apart_seconds = (result.seconds for result in results)
    if apart_seconds > _SLOWDOWN * seconds + _SLOW_SECONDS:
        return f"apart, an evaluation takes {apart_seconds:.1f} s instead of {seconds:.1f} s"
    first, numbers = (_collect_numbers(result.value) for result in results)
    if _are_close(first, numbers, first):
        return ""
    second = _collect_numbers(together.run(request).value)
    if _are_close(first, numbers, second):
        return ""
    return "apart, the initial function has another score"


def _find_failure(result: SandboxResult) -> str:
    if result.failure is not None:
        return result.failure
    entries = result.value if isinstance(result.value, list) else []
    return next((str(entry["failure"]) for entry in entries if isinstance(entry, dict) and "failure" in entry), "")


def _collect_numbers(value: JSON) -> list[float]:
    match value:
        case bool():
            return []
        case int() | float():
            return [float(value)]
        case dict():
            return [number for name in sorted(value) for number in _collect_numbers(value[name])]
        case list():
            return [number for item in value for number in _collect_numbers(item)]
    return []


def _are_close(first: list[float], others: list[float], second: list[float]) -> bool:
    if not len(first) == len(others) == len(second):
        return False
    noise = [_NOISE_FACTOR * abs(a - b) for a, b in zip(first, second, strict=True)]
    limits = [max(extra, _TOLERANCE * max(abs(a), abs(b))) for a, b, extra in zip(first, others, noise, strict=True)]
    return all(abs(a - b) <= limit for a, b, limit in zip(first, others, limits, strict=True))


def find_modules(*sources: str) -> list[str]:
    """Returns the installed modules that sources import, which a program's process loads in advance."""
    names = dict[str, None]()
    for source in sources:
        try:
            nodes = list(ast.walk(ast.parse(source)))
        except (SyntaxError, ValueError, RecursionError):
            continue
        aliases = dict[str, str]()
        for node in nodes:
            match node:
                case ast.Import(names=imported):
                    names |= dict.fromkeys(alias.name for alias in imported)
                    aliases |= {alias.asname or alias.name: alias.name for alias in imported}
                case ast.ImportFrom(module=str(module), names=imported, level=0):  # a name may be a module
                    names |= dict.fromkeys([module, *(f"{module}.{alias.name}" for alias in imported)])
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr="random" | "linalg" | "fft" | "optimize" | "stats"):
                    names |= {f"{aliases[owner]}.{node.attr}": None} if owner in aliases else {}  # loaded when used
    installed = []
    for name in names:
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name.partition(".")[0])
            if spec is not None and (spec.origin in ("built-in", "frozen") or _is_installed(spec.origin)):
                installed.append(name)
    return installed


def _is_installed(origin: str | None) -> bool:
    if origin is None:
        return False
    folders = [os.path.dirname(os.__file__), *(path for path in sys.path if job_pickle.contains_packages(path))]
    return any(origin.startswith(folder + os.sep) for folder in folders)
