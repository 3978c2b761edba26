"""How strong a sandbox can be on this machine: found out by trying, told as data."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from atoll.sandbox import shelves

LEVELS = {
    "L3": "namespaces, Landlock, seccomp and limits",
    "L2": "Landlock, seccomp and limits; no namespaces",
    "L1": "limits, and seccomp if there; files unguarded",
    "L0": "a process of its own with limits",
}
JAILS = ("L1", "L2", "L3")
_TRY_SECONDS = 60.0
_TRY = "import sys; sys.path.insert(0, sys.argv[1]); from atoll.sandbox import probing; probing.main()"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was tried in a child that was thrown away; an empty text: it works, else what went wrong.

    Attributes:
        namespaces: A root, processes and a network of its own.
        needs_user: Whether namespaces need one of the user, as for everybody but root.
        landlock: Opening files by list only.
        landlock_abi: Its version; 0: none.
        seccomp: Making system calls by list only.
        forks: Forking a process, limiting and watching it.
        advice: How to get namespaces here, as far as the machine tells.
    """

    namespaces: str = ""
    needs_user: bool = False
    landlock: str = ""
    landlock_abi: int = 0
    seccomp: str = ""
    forks: str = ""
    advice: str = ""


NOTHING_WORKS = "was not tried: this is no Linux"


@functools.cache
def probe() -> Probe:
    """Tries everything, once for this process."""
    if not sys.platform.startswith("linux"):
        return Probe(NOTHING_WORKS, False, NOTHING_WORKS, 0, NOTHING_WORKS, NOTHING_WORKS)
    try:
        tried = subprocess.run(
            [sys.executable, "-P", "-c", _TRY, shelves.PACKAGES],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRY_SECONDS,
            check=True,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ},
        )
        return Probe(**json.loads(tried.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        said = f"could not be tried: {error}"
        return Probe(said, False, said, 0, said, said)


def level_of(probed: Probe) -> str:
    """Returns the strongest level for which all that it needs works."""
    if probed.forks:
        return "L0"
    if probed.landlock or probed.seccomp:
        return "L1"
    return "L2" if probed.namespaces else "L3"


def missing(probed: Probe) -> Sequence[str]:
    """Returns a sentence for everything that is missing for L3: what, why, and how to get it."""
    said = []
    if probed.namespaces:
        advice = probed.advice or "let this user make namespaces"
        said.append(f"No namespaces ({probed.namespaces}): for L3, {advice}.")
    if probed.landlock:
        said.append(
            f"No Landlock ({probed.landlock}): for L2, use a kernel from 5.13 on that has landlock in its lsm= list, "
            "and a container runtime that lets it through."
        )
    if probed.seccomp:
        said.append(
            f"No seccomp filters ({probed.seccomp}): for L2, use a kernel that has them (CONFIG_SECCOMP_FILTER), on "
            "x86_64 or aarch64."
        )
    if probed.forks:
        said.append(f"No watched forks ({probed.forks}): for L1, use Linux from 5.3 on.")
    return said


def refusal(probed: Probe, wanted: str) -> str:
    """Returns the sentence for who wants more than there is."""
    if wanted not in LEVELS:
        return f"There is no sandbox level {wanted!r}: the levels are {', '.join(reversed(LEVELS))}."
    if wanted == "L0":
        return "L0 is no jail: use sandbox.Workers."
    why = " ".join(missing(probed))
    return f"This machine has a sandbox of level {level_of(probed)}, not {wanted}. {why}"


def to_data(probed: Probe) -> dict[str, str | bool | int]:
    """Returns the probe as plain data."""
    return asdict(probed)
