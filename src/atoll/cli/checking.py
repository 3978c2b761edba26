"""The verb `atoll doctor`."""

import os
import platform
import re
import sqlite3
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import atoll
from atoll import errors
from atoll.cli import extras, options

type Status = Literal["ok", "missing", "broken"]

# Those that a user may want: `all` is all of them, and `dev` is for who works on Atoll.
EXTRAS_IN_USE = frozenset({"anthropic", "google", "local", "dashboard", "postgres", "ray", "envs", "mcp", "columnar"})
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^]]*)])?[^;]*(?:;.*extra == ['\"]([^'\"]+)['\"])?")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        status: `missing` hinders only who wants that thing; `broken` hinders everybody.
        advice: What to do; empty where nothing is.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def doctor(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> int:
    """Checks this machine, and says what is missing.

    Packages, store, sandbox and keys; where something is missing, what to do.

    Of keys it says whether they are set and never what they are. Exits 1 only if something needed is broken.

    \b
    Examples:
      atoll doctor
      atoll doctor --store /tmp/demo.db --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output  # with rich: help need not wait for it

    checks = list(examine(store))
    is_ok = all(check.status != "broken" for check in checks)
    if as_json:
        output.print_json({"ok": is_ok, "checks": [asdict(check) for check in checks]})
        return 0 if is_ok else 1
    console = output.out()
    width = max(len(check.name) for check in checks)
    colours = {"ok": "", "missing": "dim", "broken": "bold red"}
    for check in checks:
        told = f"\n{'':{width + 11}}".join(_lines(check, max(console.width - width - 11, 40)))
        output.say(console, f"{check.status:7}  {check.name:{width}}  {told}", colours[check.status])
    return 0 if is_ok else 1


def _lines(check: Check, room: int) -> Sequence[str]:
    """Returns what was found and what to do, on one line where they have room."""
    whole = f"{check.found}; {check.advice}" if check.advice else check.found
    if len(whole) <= room:
        return [whole]
    texts = (f"{check.found};", check.advice) if check.advice else (check.found,)
    return [
        each for text in texts for each in textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    ]


def examine(store: str) -> Iterator[Check]:
    """Yields the checks, one after the other."""
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Check("atoll", "ok", atoll.__version__)
    yield from _packages()
    yield _attempted("store", lambda: _store(store), "give another with --store, or put it in order")
    yield _attempted("sandbox", _sandbox, "candidates cannot run until this works")
    yield from _keys()
    yield Check("cores", "ok", str(len(os.sched_getaffinity(0))))
    yield Check("memory", "ok", f"{_memory_bytes() / 2**30:.1f} GiB")


def _attempted(name: str, look: Callable[[], Check], advice: str) -> Check:
    """Looks, and takes whatever is raised for the answer."""
    found = errors.attempt(look)
    if not isinstance(found, errors.Caught):
        return found
    is_told = isinstance(found.error, errors.AtollError)
    return Check(name, "broken", str(found.error) if is_told else str(found), advice)


def _keys() -> Iterator[Check]:
    """Yields a check for each service that wants a key; any of its variables will do."""
    from atoll.llm import endpoint

    for service, about in endpoint.SERVICES.items():
        if about.is_own:
            continue
        name, *others = about.key_variables
        if found := next((each for each in about.key_variables if os.environ.get(each)), None):
            yield Check(name, "ok", "set" if found == name else f"set as {found}")
        else:
            wanted = f"this or {' or '.join(others)} is needed" if others else "needed"
            yield Check(name, "missing", "not set", f"{wanted} for {service}:NAME")


def _packages() -> Iterator[Check]:
    """Yields the packages that are needed, then the extras; asks their metadata and imports none."""
    needed, wanted = _required("atoll")
    for name in needed:
        version = _version(name)
        if version is None:
            yield Check(name, "broken", "not installed", f"pip install {name}")
        else:
            yield Check(name, "ok", version)
    yield Check("sqlite", "ok", sqlite3.sqlite_version)
    for extra, names in wanted.items():
        versions = {name: _version(name) for name in names}
        lacking = [name for name, version in versions.items() if version is None]
        if lacking:
            found = f"without {', '.join(lacking)}"
            yield Check(f"extra {extra}", "missing", found, extras.command(extra))
        else:
            yield Check(f"extra {extra}", "ok", ", ".join(f"{name} {version}" for name, version in versions.items()))


def _required(package: str) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """Returns what a package always needs, and what each of its extras adds."""
    needed, added = list[str](), dict[str, list[str]]()
    for line in metadata.requires(package) or ():
        if (found := _REQUIREMENT.match(line)) is None or not (found[3] is None or found[3] in EXTRAS_IN_USE):
            continue
        inner = [name for extra in (found[2] or "").split(",") for name in _of_extra(found[1], extra.strip())]
        (added.setdefault(found[3], []) if found[3] else needed).extend([found[1], *inner])
    return needed, added


def _of_extra(package: str, extra: str) -> Sequence[str]:
    """Returns what an extra of another package adds, e.g. `anthropic` for `pydantic-ai-slim[anthropic]`."""
    try:
        found = [_REQUIREMENT.match(line) for line in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        return ()
    return [each[1] for each in found if each and extra and each[3] == extra]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _store(url: str) -> Check:
    """Opens the store, and takes the right to write for a moment; makes none where there is none."""
    from atoll.store import address, schema

    path = Path(address.path_of(url))
    if address.is_path(url) and not path.exists():
        folder = path.absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            return Check("store", "broken", f"{folder} cannot be written", "make that folder, or name another store")
        return Check("store", "ok", f"{url} is not there yet: the first run makes it")
    with options.opened(url) as kept:
        with kept.database.writing():
            pass
        found = f"{kept.database.name}, schema {schema.VERSION}, {len(kept.runs()):,} runs, writable"
    return Check("store", "ok", found)


def _make_job() -> Callable[[Any], Any]:
    return _double


def _double(number: Any) -> Any:
    return 2 * number


def _sandbox() -> Check:
    """Tries the strongest sandbox that there is, and says what is missing for a stronger one."""
    from atoll import sandbox

    with sandbox.open(_make_job, sandbox.Limits(seconds=10.0), unsafe=True) as box:
        answer = box.run(21)
    if answer.value != 42:
        raise errors.SetupError(f"A trivial job failed: {answer.failure or answer.value!r}.")
    lacking = " ".join(sandbox.missing(sandbox.probe()))
    return Check("sandbox", "missing" if lacking else "ok", f"{box.level}: {sandbox.LEVELS[box.level]}", lacking)


def _memory_bytes() -> float:
    """Returns how much memory there is, or how much of it this container may use."""
    there = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    allowed = MEMORY_LIMIT.read_text().strip() if MEMORY_LIMIT.is_file() else "max"
    return min(there, float(allowed)) if allowed.isdecimal() else there
