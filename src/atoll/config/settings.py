"""Sections of the configuration that all systems share, `--set` and budgets."""

import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pydantic

from atoll import control, errors, executor, llm, safe_yaml, sandbox
from atoll.system import Names, Settings

type Method = Literal["evolve", "best_of_n", "sequential"]


class RunSettings(Settings):
    """Section `[run]`.

    Attributes:
        llm: Name of an LLM; `none`: evolve without one; `config`: the one of the OpenEvolve configuration.
        iterations: Number of iterations; without it and without a budget 1,000.
        budget: Further limits, e.g. "60s", "$1", "500evals", or several separated by commas.
        island_budget: LLM budget of each island, e.g. "$0.1" or "50calls".
        target: Stop when the best score reaches it.
        patience: Stop after this many iterations without a new best.
        min_gain: Gain that a new best needs to count for `patience`.
        method: Baselines: `best_of_n` derives every child from the initial program, `sequential` from the best so far.
        seed: Random seed.
        workers: Iterations in parallel.
        deterministic: The same seed gives the same run with any number of workers.
        window: Iterations in flight; twice the workers by default, 8 if deterministic.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"least_gain": "min_gain"}
    llm: str = "none"
    iterations: int | None = pydantic.Field(default=None, ge=0)
    budget: str | None = None
    island_budget: str | None = None
    target: float | None = None
    patience: int | None = pydantic.Field(default=None, ge=1)
    min_gain: float = pydantic.Field(default=0.0, ge=0)
    method: Method = "evolve"
    seed: int = 0
    workers: int = pydantic.Field(default=2, ge=1)
    deterministic: bool = False
    window: int | None = pydantic.Field(default=None, ge=1)


class LLMOptions(Settings):
    """Options of one LLM. The provider's default applies to options that are None."""

    temperature: float | None = pydantic.Field(default=None, ge=0)
    top_p: float | None = pydantic.Field(default=None, gt=0, le=1)
    top_k: int | None = pydantic.Field(default=None, ge=1)
    seed: int | None = None
    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    thinking: Literal["off", "minimal", "low", "medium", "high"] | None = None
    timeout_seconds: float | None = pydantic.Field(default=None, gt=0)
    retries: int | None = pydantic.Field(default=None, ge=0)
    backoff_seconds: float | None = pydantic.Field(default=None, ge=0)


class ModelSettings(LLMOptions):
    """Section `[llm.models."NAME"]`: options of one of several LLMs.

    Attributes:
        system_message: Replaces the system message of the prompts for this LLM.
        api_key: Place of the API key: `${NAME}`, an environment variable, or `@FILE#KEY`, a key of a YAML file. The key
            itself is a secret and never stored.
    """

    system_message: str | None = None
    api_key: str | None = None

    @pydantic.field_validator("api_key", mode="before")
    @classmethod
    def _check_api_key(cls, value: object) -> object:
        if value is not None and not (isinstance(value, str) and _KEY_PLACE.fullmatch(value)):
            raise errors.SetupError(  # without the value: it may be a key
                'api_key in llm.models is a secret. Put it in an environment variable and write api_key = "${NAME}".'
            )
        return value

    def to_options(self) -> dict[str, Any]:
        """Returns the options of `llm.make_llm`. The API key is read when the LLM is made."""
        options: dict[str, Any] = {name: value for name, value in self.model_dump().items() if value is not None}
        return options | ({"api_key": partial(read_api_key, self.api_key)} if self.api_key else {})


_KEY_PLACE = re.compile(r"\$\{(?P<variable>\w+)\}|@(?P<file>.+)#(?P<key>[\w.]+)")


def read_api_key(place: str) -> str:
    """Returns the API key at a place, see `ModelSettings`.

    Raises:
        SetupError: The place has no key.
    """
    match = _KEY_PLACE.fullmatch(place)
    assert match is not None
    if variable := match["variable"]:
        if not (value := os.environ.get(variable)):
            raise errors.SetupError(f"The API key of the LLM is in {variable}, which is not set. Set it.")
        return value
    try:
        data: Any = safe_yaml.load(Path(match["file"]).read_text(encoding="utf-8"), allow_aliases=True)
        for part in match["key"].split("."):
            data = data[int(part) if part.isdecimal() else part]
    except (safe_yaml.InvalidYAML, OSError, ValueError, LookupError, TypeError):
        data = None
    if not isinstance(data, str):
        raise errors.SetupError(f"{match['file']} has no API key at {match['key']}, as it had when the run began.")
    return data


class LLMSettings(LLMOptions):
    """Section `[llm]`. The provider's default applies to options that are not set.

    Attributes:
        models: Options of single LLMs, by their names in `run.llm`, without weights.
    """

    stream: bool = False
    retries: int = pydantic.Field(default=2, ge=0)
    backoff_seconds: float = pydantic.Field(default=0.5, ge=0)
    max_wait_seconds: float = pydantic.Field(default=60.0, ge=0)
    outage_seconds: float = pydantic.Field(default=120.0, ge=0)
    route: Literal["weights", "bandit", "plateau"] = "weights"
    plateau_steps: int = pydantic.Field(default=20, ge=1)
    cli_arguments: str = ""
    price_in: float | None = pydantic.Field(default=None, ge=0)
    price_out: float | None = pydantic.Field(default=None, ge=0)
    models: dict[str, ModelSettings] = pydantic.Field(default={})

    def to_options(self) -> dict[str, Any]:
        """Returns the options of `llm.make_llm`.

        Raises:
            SetupError: `cli_arguments` is not a valid command line, or one of the two prices is missing.
        """
        values = self.model_dump(exclude={"route", "plateau_steps", "price_in", "price_out", "models"})
        models = {name: model.to_options() for name, model in self.models.items()}
        values["price"] = self.get_price()
        try:
            return {**values, "cli_arguments": shlex.split(self.cli_arguments), "models": models}
        except ValueError as error:
            raise errors.SetupError(f"llm.cli_arguments {self.cli_arguments!r:.60} is not valid: {error}.") from None

    def get_price(self) -> llm.Price | None:
        """Returns the configured price; None if there is none.

        Raises:
            SetupError: One of the two prices is missing.
        """
        if (self.price_in is None) != (self.price_out is None):
            raise errors.SetupError("Set both llm.price_in and llm.price_out, in USD per million tokens, or neither.")
        return None if self.price_in is None or self.price_out is None else llm.Price(self.price_in, self.price_out)


class SandboxSettings(Settings):
    """Section `[sandbox]`: limits and permissions of one evaluation.

    Attributes:
        seconds: Wall-clock time.
        memory_mb: Address space of the process, libraries included.
        output_bytes: Size of the evaluator's result, and of the printed text that is kept.
        cpu_seconds: CPU time of each process; None: about `seconds`.
        disk_mb: Bytes written to files.
        num_processes: Threads and processes at the same time.
        num_files: Open files at the same time.
        slots: Parallel evaluations; None: as many as workers, but at most as many as CPU cores.
        require: Weakest sandbox level to accept.
        trusted: Evaluate without a sandbox, in reused processes. With an LLM this needs `--unsafe`.
        env: Environment variables that an evaluation can read; secrets need `--unsafe-env`.
        programs: Programs that an evaluation may start, by name or path; `.`: those that it builds in its folder.
        read_paths: Files and folders that an evaluation may read, relative to the task folder.
        network: Whether an evaluation has network access.
        scoring: Whether evaluator and candidate run `apart`, in two sandboxes, or `together` in one, where a candidate
            could forge its score. `auto`: apart if a dry run on the initial program gives the same score.
        call_seconds: Time of one call of a candidate that is scored apart; None: `seconds` alone limits it.
        call_mb: Size of the arguments or the result of such a call.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"reads": "read_paths"}
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
    read_paths: Names = ()
    network: bool = False
    scoring: Literal["auto", "apart", "together"] = "auto"
    call_seconds: float | None = pydantic.Field(default=None, gt=0)
    call_mb: int = pydantic.Field(default=64, ge=1)

    def to_limits(self) -> sandbox.Limits:
        names = [field.name for field in fields(sandbox.Limits)]
        return sandbox.Limits(**{name: getattr(self, name) for name in names})


class ExecutorSettings(Settings):
    """Section `[executor]`: where candidates are evaluated. It does not change the results.

    Attributes:
        kind: `local`: on this machine; `ray`: on the nodes of a Ray cluster.
        address: `HOST:PORT` of the cluster, or `auto`; None: RAY_ADDRESS, else start a cluster for the run.
        cpus: CPUs of each evaluation.
        gpus: GPUs of each evaluation.
        memory_mb: Memory that Ray reserves for each evaluation; None: none.
        resources: Further resources of each evaluation, by the names that the nodes were started with.
        attempts: Evaluations of a candidate that kills its worker, before it counts as failed.
        wait_seconds: Time to wait for a node with free resources.
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
        """Returns the settings of the Ray cluster; None: evaluate on this machine."""
        values = self.model_dump(exclude={"kind"})
        return executor.RayConfig(**values) if self.kind == "ray" else None


COMMON_SECTIONS: Mapping[str, type[Settings]] = {
    "run": RunSettings,
    "llm": LLMSettings,
    "sandbox": SandboxSettings,
    "executor": ExecutorSettings,
}


type Sections = Mapping[str, Any]

NO_SECTION = ""  # section of keys given without one


def parse_set(text: str) -> Sections:
    """Reads `section.key=value`. A value that is not valid TOML is a text.

    A key without a section goes to `NO_SECTION`; the models of the system tell later which section has it.

    Raises:
        SetupError: The key or the `=` is missing.
    """
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().rpartition(".")
    if not equals or not key or (dot and not section):
        raise errors.SetupError(f"--set {text} is not valid. Write --set section.key=value, e.g. run.seed=7.")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"The value of --set {path.strip()} is not valid: {error}.") from error
    return {section: {key: parsed}}


def replace_iterations(layers: Sequence[Sections]) -> Sequence[Sections]:
    """Removes the iterations that an OpenEvolve folder implies, in the first layer, if a later layer has a budget."""
    implied, *own = layers
    if not any(layer.get("run", {}).get("budget") for layer in own):
        return layers
    run = {key: value for key, value in implied.get("run", {}).items() if key != "iterations"}
    return [{**implied, "run": run}, *own]


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
    """Reads `60s`, `10m`, `1h`, `$1`, `500evals`, `100calls`, `20000tokens`, `50steps`, or several with commas.

    Raises:
        SetupError: A limit is not of this form.
    """
    limits: dict[str, Any] = {}
    for part in (text or "").split(","):
        if part.strip():
            limits |= _parse_amount(part.strip())
    if text is not None and not limits:
        raise errors.SetupError("The budget is empty. Write e.g. 60s, '$1' or 500evals.")
    return control.Budget(**limits)


def _parse_amount(part: str) -> Mapping[str, float | int]:
    for name, pattern in _AMOUNT_PATTERNS.items():
        if match := pattern.fullmatch(part):
            amount, unit = match.groups()
            if name in ("seconds", "usd"):
                return {name: float(amount) * _SECONDS_PER_UNIT.get(unit, 1.0)}
            return {name: int(amount)}
    raise errors.SetupError(f"The budget {part!r} is not valid. Write e.g. 60s, '$1' or 500evals.")
