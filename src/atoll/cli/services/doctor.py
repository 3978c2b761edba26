"""Command `doctor`."""

import os
import platform
import re
import shlex
import sqlite3
import stat
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import atoll
from atoll import errors
from atoll.cli.terminal import options

_COMMAND = re.compile(r"pip install 'atoll\[(\w+)\]'(?! \(in a checkout)")


def get_install_command(extra: str) -> str:
    """Returns the command that installs an extra."""
    return add_checkout_command(f"pip install 'atoll[{extra}]'")


def add_checkout_command(sentence: str) -> str:
    """Adds the command for a checkout after each command that installs an extra."""
    return _COMMAND.sub(r"\g<0> (in a checkout: scripts/setup \1)", sentence)


type Status = Literal["ok", "missing", "broken"]

# Extras for users; `all` is their sum, and `dev` is for developers of Atoll.
EXTRAS_IN_USE = frozenset(
    {
        "laws",
        "openai",
        "anthropic",
        "google",
        "local",
        "dashboard",
        "postgres",
        "ray",
        "envs",
        "mcp",
        "columnar",
        "openfeature",
        "dspy",
        "sklearn",
        "mlflow",
        "wandb",
        "tensorboard",
        "otel",
    }
)
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")

_TEMPORARY = re.compile(r"atoll-(\d{1,9})-\w+", re.ASCII)  # folder of a process, by its id
_REMOVAL = re.compile(r"rm -r (?:'[^']*'|[^;'])*")  # a second line of a pasted command would be a command of its own
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^]]*)])?[^;]*(?:;.*extra == ['\"]([^'\"]+)['\"])?")


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """Result of one check.

    Attributes:
        status: `missing` affects one feature; `broken` affects every run.
        advice: Action to take; empty if none.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def doctor(
    store: options.StoreOption = options.DEFAULT_STORE,
    show_strategies: Annotated[
        bool, typer.Option("--strategies", help="List strategies that settings can name.")
    ] = False,
    as_json: options.JsonOption = False,
) -> int:
    """Check this machine and report what is missing.

    Checks packages, store, sandbox and API keys, and says what to do. Keys are never printed. The exit status is 1
    only if something required is broken.

    \b
    Examples:
      atoll doctor
      atoll doctor --store /tmp/demo.db --json
      atoll doctor --strategies
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console as terminal  # slow import: rich

    if show_strategies:
        rows = list_strategies()
        if as_json:
            terminal.print_json({"strategies": rows})
        else:
            table = [[*(str(row[name]) for name in list(row)[:3]), ", ".join(row["systems"])] for row in rows]
            console = terminal.get_stdout_console()
            terminal.print_table(console, ["kind", "name", "description", "systems"], table)
        return 0
    checks = list(run_checks(store))
    is_ok = all(check.status != "broken" for check in checks)
    if as_json:
        terminal.print_json({"ok": is_ok, "checks": [asdict(check) for check in checks]})
        return 0 if is_ok else 1
    console = terminal.get_stdout_console()
    width = max(len(check.name) for check in checks)
    colors = {"ok": "", "missing": "dim", "broken": "bold red"}
    for check in checks:
        description = f"\n{'':{width + 11}}".join(_wrap_check(check, max(console.width - width - 11, 40)))
        terminal.print_line(console, f"{check.status:7}  {check.name:{width}}  {description}", colors[check.status])
    return 0 if is_ok else 1


def list_strategies() -> list[dict[str, Any]]:
    """Returns kind, name, description and systems of every strategy, also of installed packages."""
    from atoll import config, strategies

    list(config.iter_systems())  # a package registers its strategies when its system is loaded
    return [
        {"kind": row.kind, "name": row.name, "description": row.description, "systems": list(row.systems)}
        for row in strategies.list_strategies()
    ]


def _wrap_check(check: DoctorCheck, width: int) -> Sequence[str]:
    """Returns the result and the advice, on one line if they fit."""
    full_text = f"{check.found}; {check.advice}" if check.advice else check.found
    if len(full_text) <= width:
        return [full_text]
    texts = (f"{check.found};", check.advice) if check.advice else (check.found,)
    unbroken = [_REMOVAL.sub(lambda match: match[0].replace(" ", "\xa0"), text) for text in texts]
    return [
        line.replace("\xa0", " ")
        for text in unbroken
        for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    ]


def run_checks(store: str) -> Iterator[DoctorCheck]:
    yield DoctorCheck("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield DoctorCheck("atoll", "ok", atoll.__version__)
    yield from _check_packages()
    yield _run_check("store", lambda: _check_store(store), "name another store with --store, or repair this one")
    yield _run_check("sandbox", _check_sandbox, "candidates cannot run until this works")
    yield from _check_systems()
    yield from _check_keys()
    yield DoctorCheck("cores", "ok", str(len(os.sched_getaffinity(0))))
    yield DoctorCheck("memory", "ok", f"{_get_memory_bytes() / 2**30:.1f} GiB")
    folder = Path(tempfile.gettempdir())
    if (leftovers := find_leftovers(folder)) and str(folder).isprintable():
        prefixes = sorted({path.name.rpartition("-")[0] for path in leftovers})
        commands = "; ".join(f"rm -r {shlex.quote(str(folder))}/{prefix}-*" for prefix in prefixes)
        yield DoctorCheck(
            "temporary files", "ok", f"{len(leftovers)} folders of killed processes", f"remove them: {commands}"
        )


def find_leftovers(folder: Path) -> list[Path]:
    """Returns the temporary folders of this user whose process no longer exists."""
    try:
        names = os.listdir(folder)
    except OSError:  # some machines hide the names of a shared folder
        return []
    owners = {folder / name: int(match[1]) for name in names if (match := _TEMPORARY.fullmatch(name))}
    return [path for path, pid in owners.items() if _is_own_folder(path) and not _exists(pid)]


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def _run_check(name: str, run_check: Callable[[], DoctorCheck], advice: str) -> DoctorCheck:
    """Runs a check. An exception becomes a broken result."""
    result = errors.capture(run_check)
    if not isinstance(result, errors.CaughtException):
        return result
    is_atoll_error = isinstance(result.error, errors.AtollError)
    return DoctorCheck(name, "broken", str(result.error) if is_atoll_error else str(result), advice)


def _check_systems() -> Iterator[DoctorCheck]:
    """Yields the systems that can be loaded, then those of other packages that cannot."""
    from atoll import config

    failures = list[DoctorCheck]()
    names = list[str]()
    for name in config.list_systems():
        try:
            names.append(config.get_system(name).name)
        except errors.SetupError as error:
            failures.append(DoctorCheck(f"system {name}", "missing", str(error)))
    yield DoctorCheck("systems", "ok", ", ".join(names))
    yield from failures


def _check_keys() -> Iterator[DoctorCheck]:
    """Yields a check for each LLM service that needs a key. One of its variables is enough."""
    from atoll.llm import endpoint

    for service, service_info in endpoint.SERVICES.items():
        if service_info.is_local:
            continue
        name, *other_variables = service_info.key_variables
        if set_variable := next(
            (variable for variable in service_info.key_variables if os.environ.get(variable)), None
        ):
            yield DoctorCheck(name, "ok", "set" if set_variable == name else f"set as {set_variable}")
        else:
            requirement = f"this or {' or '.join(other_variables)} is needed" if other_variables else "needed"
            yield DoctorCheck(name, "missing", "not set", f"{requirement} for {service}:NAME")


def _check_packages() -> Iterator[DoctorCheck]:
    """Yields required packages, then extras. Reads metadata and imports nothing."""
    required, optional = _read_requirements("atoll")
    for name in required:
        version = _version(name)
        if version is None:
            yield DoctorCheck(name, "broken", "not installed", f"pip install {name}")
        else:
            yield DoctorCheck(name, "ok", version)
    yield DoctorCheck("sqlite", "ok", sqlite3.sqlite_version)
    for extra, names in optional.items():
        versions = {name: _version(name) for name in names}
        missing = [name for name, version in versions.items() if version is None]
        if missing:
            description = f"{', '.join(missing)} not installed"
            yield DoctorCheck(f"extra {extra}", "missing", description, get_install_command(extra))
        else:
            yield DoctorCheck(
                f"extra {extra}", "ok", ", ".join(f"{name} {version}" for name, version in versions.items())
            )


def _read_requirements(package: str) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """Returns the required packages, and the packages of each extra."""
    from importlib import metadata  # slow import

    required, by_extra = list[str](), dict[str, list[str]]()
    for line in metadata.requires(package) or ():
        if (match := _REQUIREMENT.match(line)) is None or not (match[3] is None or match[3] in EXTRAS_IN_USE):
            continue
        inner = [name for extra in (match[2] or "").split(",") for name in _get_extra_packages(match[1], extra.strip())]
        (by_extra.setdefault(match[3], []) if match[3] else required).extend([match[1], *inner])
    return required, by_extra


def _get_extra_packages(package: str, extra: str) -> Sequence[str]:
    """Returns packages of an extra of another package, e.g. `anthropic` for `pydantic-ai-slim[anthropic]`."""
    from importlib import metadata  # slow import

    try:
        matches = [_REQUIREMENT.match(line) for line in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        return ()
    return [match[1] for match in matches if match and extra and match[3] == extra]


def _version(package: str) -> str | None:
    from importlib import metadata  # slow import

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _check_store(url: str) -> DoctorCheck:
    """Opens an existing store and takes the write lock. Never creates a store."""
    from atoll.store.database import dialect, schema

    path = Path(dialect.get_path(url))
    if dialect.is_file_path(url) and not path.exists():
        folder = path.absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            return DoctorCheck(
                "store", "broken", f"{folder} cannot be written", "create that folder, or name another store"
            )
        return DoctorCheck("store", "ok", f"{url} does not exist yet; the first run creates it")
    with options.open_existing_store(url) as run_store:
        with run_store.database.begin_write():
            pass
        description = (
            f"{run_store.database.name}, schema {schema.VERSION}, {len(run_store.list_runs()):,} runs, writable"
        )
    return DoctorCheck("store", "ok", description)


def _make_job() -> Callable[[Any], Any]:
    return _double


def _double(value: Any) -> Any:
    return 2 * value


def _check_sandbox() -> DoctorCheck:
    """Tries the strongest available sandbox and reports what a stronger one needs."""
    from atoll import sandbox

    with sandbox.open(_make_job, sandbox.Limits(seconds=10.0), unsafe=True) as probe_sandbox:
        result = probe_sandbox.run(21)
    if result.value != 42:
        raise errors.SetupError(f"A trivial job failed: {result.failure or result.value!r}.")
    missing_features = " ".join(sandbox.describe_missing(sandbox.probe()))
    return DoctorCheck(
        "sandbox",
        "missing" if missing_features else "ok",
        f"{probe_sandbox.level}: {sandbox.LEVELS[probe_sandbox.level]}",
        missing_features,
    )


def _get_memory_bytes() -> float:
    """Returns the memory of the machine, or the limit of the container."""
    total = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limit = MEMORY_LIMIT.read_text().strip() if MEMORY_LIMIT.is_file() else "max"
    return min(total, float(limit)) if limit.isdecimal() else total
