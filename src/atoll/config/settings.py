"""The sections of a configuration that all systems share."""

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

import pydantic

from atoll import control, errors, executor, sandbox
from atoll.system import Names, Settings

type Method = Literal["evolve", "best_of_n", "sequential"]


class RunSettings(Settings):
    """Section `[run]`.

    Attributes:
        llm: A model by name; `none`: evolve without one; `config`: the one that OpenEvolve's configuration names.
        iterations: Steps; without it and without a budget 1,000.
        budget: What the run may use besides, e.g. "60s", "$1", "500evals", or several of them with commas.
        island_budget: What one island may use of a model, e.g. "$0.1" or "50calls".
        target: Stops once the best score reaches it.
        patience: Stops after so many steps without a new best.
        least_gain: What a new best must gain to count for that.
        method: `best_of_n`: every child is made from the start; `sequential`: from the best so far; both are baselines.
        seed: All dice come from it.
        workers: Steps at work at once.
        deterministic: The same seed gives the same run with any number of workers.
        window: Steps in flight; twice the workers by default, 8 when deterministic.
    """

    llm: str = "none"
    iterations: int | None = pydantic.Field(default=None, ge=0)
    budget: str | None = None
    island_budget: str | None = None
    target: float | None = None
    patience: int | None = pydantic.Field(default=None, ge=1)
    least_gain: float = pydantic.Field(default=0.0, ge=0)
    method: Method = "evolve"
    seed: int = 0
    workers: int = pydantic.Field(default=2, ge=1)
    deterministic: bool = False
    window: int | None = pydantic.Field(default=None, ge=1)


class LLMSettings(Settings):
    """Section `[llm]`; what is not set is left to the provider."""

    temperature: float | None = pydantic.Field(default=None, ge=0)
    top_p: float | None = pydantic.Field(default=None, gt=0, le=1)
    top_k: int | None = pydantic.Field(default=None, ge=1)
    seed: int | None = None
    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    thinking: Literal["off", "minimal", "low", "medium", "high"] | None = None
    stream: bool = False
    timeout_seconds: float | None = pydantic.Field(default=None, gt=0)
    retries: int = pydantic.Field(default=2, ge=0)
    backoff_seconds: float = pydantic.Field(default=0.5, ge=0)
    max_wait_seconds: float = pydantic.Field(default=60.0, ge=0)
    outage_seconds: float = pydantic.Field(default=120.0, ge=0)
    route: Literal["weights", "bandit", "plateau"] = "weights"
    plateau_steps: int = pydantic.Field(default=20, ge=1)
    cli_arguments: str = ""
    price_in: float | None = pydantic.Field(default=None, ge=0)
    price_out: float | None = pydantic.Field(default=None, ge=0)

    def to_options(self) -> dict[str, Any]:
        """Returns what a model is made with.

        Raises:
            SetupError: The arguments for a command line cannot be read.
        """
        values = self.model_dump(exclude={"route", "plateau_steps", "price_in", "price_out"})
        try:
            return {**values, "cli_arguments": shlex.split(self.cli_arguments)}
        except ValueError as error:
            raise errors.SetupError(f"llm.cli_arguments {self.cli_arguments!r:.60} cannot be read: {error}.") from None


class SandboxSettings(Settings):
    """Section `[sandbox]`: what judging one candidate may use, and what its jail lets in.

    Attributes:
        seconds: Wall clock.
        memory_mb: Address space of the process, its libraries included.
        output_bytes: What the evaluator may return, and what is kept of printing.
        cpu_seconds: Processor time of each process; None: about `seconds`.
        disk_mb: All that is written to files.
        num_processes: Threads and processes at once.
        num_files: Files that are open at once.
        slots: Candidates that are judged at once; None: as many as workers, and at most as many as cores.
        require: The weakest level that will do.
        trusted: No jail: candidates share warm processes. With a model this needs `--unsafe`.
        env: Variables of the environment that an evaluation sees; a key's name needs `--unsafe-env`.
        programs: Programs that it may start, by name or path; `.`: what it builds in its own folder.
        reads: Files and folders that it may read; relative to the task's folder.
        network: Whether it has one.
    """

    seconds: float = pydantic.Field(default=30.0, gt=0)
    memory_mb: int | None = pydantic.Field(default=2048, ge=64)
    output_bytes: int = pydantic.Field(1_000_000, ge=1000)
    cpu_seconds: float | None = pydantic.Field(default=None, gt=0)
    disk_mb: int = pydantic.Field(default=256, ge=1)
    num_processes: int = pydantic.Field(default=64, ge=1)
    num_files: int = pydantic.Field(default=256, ge=16)
    slots: int | None = pydantic.Field(default=None, ge=1)
    require: Literal["L1", "L2", "L3"] | None = None
    trusted: bool = False
    env: Names = ()
    programs: Names = ()
    reads: Names = ()
    network: bool = False

    def to_limits(self) -> sandbox.Limits:
        names = [field.name for field in fields(sandbox.Limits)]
        return sandbox.Limits(**{name: getattr(self, name) for name in names})


class ExecutorSettings(Settings):
    """Section `[executor]`: where candidates are judged; what they come to does not hang on it.

    Attributes:
        kind: `local`: on this machine; `ray`: on the nodes of a Ray cluster.
        address: `HOST:PORT` of the cluster, or `auto`; None: RAY_ADDRESS, else one is started for the run.
        cpus: Processors for each evaluation, and so are `gpus`.
        gpus: See there.
        memory_mb: Memory for each evaluation that Ray plans with; None: it plans with none.
        resources: What an evaluation needs besides, by the names that the nodes were started with.
        attempts: How often a candidate is judged that ends its worker, before it counts as failed.
        wait_seconds: How long to wait for a node with room.
    """

    kind: Literal["local", "ray"] = "local"
    address: str | None = None
    cpus: float = pydantic.Field(default=1.0, ge=0)
    gpus: float = pydantic.Field(default=0.0, ge=0)
    memory_mb: int | None = pydantic.Field(default=None, ge=1)
    resources: dict[str, float] = pydantic.Field(default_factory=dict)
    attempts: int = pydantic.Field(default=3, ge=1)
    wait_seconds: float = pydantic.Field(default=300.0, gt=0)

    def to_ray_config(self) -> executor.RayConfig | None:
        """Returns what is asked of a cluster; None: there is none."""
        values = self.model_dump(exclude={"kind"})
        return executor.RayConfig(**values) if self.kind == "ray" else None


COMMON_SECTIONS: Mapping[str, type[Settings]] = {
    "run": RunSettings,
    "llm": LLMSettings,
    "sandbox": SandboxSettings,
    "executor": ExecutorSettings,
}


type Sections = Mapping[str, Any]

NO_SECTION = ""  # the section of keys that were named without one


def parse_set(text: str) -> Sections:
    """Reads `section.key=value`, the value as in TOML; what is no TOML is a text.

    `key=value` alone stands in the section `BARE`: the system's own models say later which one is meant.

    Raises:
        SetupError: There is no `=`, or no key.
    """
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().rpartition(".")
    if not equals or not key or (dot and not section):
        raise errors.SetupError(f"--set {text} is not understood: write --set section.key=value, e.g. run.seed=7.")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"The value of --set {path.strip()} cannot be read: {error}.") from error
    return {section: {key: parsed}}


_AMOUNT_PATTERNS = {
    "seconds": re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(s|m|min|h)"),
    "usd": re.compile(r"\$\s*(\d{1,12}(?:\.\d+)?)()"),
    "evaluations": re.compile(r"(\d{1,18})\s*(evals?|evaluations?)"),
    "calls": re.compile(r"(\d{1,18})\s*(calls?)"),
    "tokens": re.compile(r"(\d{1,18})\s*(tokens?)"),
    "iterations": re.compile(r"(\d{1,18})\s*(its?|iterations?|steps?)"),
}
_SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_budget(text: str | None) -> control.Budget:
    """Reads `60s`, `$1`, `500evals`, `100calls`, `20000tokens`, or several with commas.

    Time is `10m` or `1h` too, and `50steps` limits the steps of a run.

    Raises:
        SetupError: It is none of these.
    """
    limits: dict[str, Any] = {}
    for part in (text or "").split(","):
        if part.strip():
            limits |= _parse_amount(part.strip())
    if text is not None and not limits:
        raise errors.SetupError("The budget is empty: write e.g. 60s, '$1' or 500evals.")
    return control.Budget(**limits)


def _parse_amount(part: str) -> Mapping[str, float | int]:
    for name, pattern in _AMOUNT_PATTERNS.items():
        if match := pattern.fullmatch(part):
            amount, unit = match.groups()
            if name in ("seconds", "usd"):
                return {name: float(amount) * _SECONDS_PER_UNIT.get(unit, 1.0)}
            return {name: int(amount)}
    raise errors.SetupError(f"A budget of {part!r} is not understood: write e.g. 60s, '$1' or 500evals.")
