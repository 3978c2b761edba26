"""How strong a sandbox can be on this machine: found out by trying, told as data."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from atoll.sandbox.linux import root_filesystem

LEVELS = {
    "L3": "namespaces, Landlock, seccomp and limits",
    "L2": "Landlock, seccomp and limits; no namespaces",
    "L1": "limits, and seccomp if there; files unguarded",
    "L0": "a process of its own with limits",
}
ISOLATED_LEVELS = ("L1", "L2", "L3")
_PROBE_SECONDS = 60.0
_PROBE_SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); from atoll.sandbox import probing; probing.main()"


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


NOT_PROBED = "was not tried: this is no Linux"


@functools.cache
def probe() -> Probe:
    """Tries everything, once for this process."""
    if not sys.platform.startswith("linux"):
        return Probe(NOT_PROBED, False, NOT_PROBED, 0, NOT_PROBED, NOT_PROBED)
    try:
        completed = subprocess.run(
            [sys.executable, "-P", "-c", _PROBE_SCRIPT, root_filesystem.PACKAGES_FOLDER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=True,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ},
        )
        return Probe(**json.loads(completed.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        message = f"could not be tried: {error}"
        return Probe(message, False, message, 0, message, message)


def get_level(probe_result: Probe) -> str:
    """Returns the strongest level for which all that it needs works."""
    if probe_result.forks:
        return "L0"
    if probe_result.landlock or probe_result.seccomp:
        return "L1"
    return "L2" if probe_result.namespaces else "L3"


def describe_missing(probe_result: Probe) -> Sequence[str]:
    """Returns a sentence for everything that is missing for L3: what, why, and how to get it."""
    sentences = []
    if probe_result.namespaces:
        advice = probe_result.advice or "let this user make namespaces"
        sentences.append(f"No namespaces ({probe_result.namespaces}): for L3, {advice}.")
    if probe_result.landlock:
        sentences.append(
            f"No Landlock ({probe_result.landlock}): for L2, use a kernel from 5.13 on that has landlock in its lsm= list, "
            "and a container runtime that lets it through."
        )
    if probe_result.seccomp:
        sentences.append(
            f"No seccomp filters ({probe_result.seccomp}): for L2, use a kernel that has them (CONFIG_SECCOMP_FILTER), on "
            "x86_64 or aarch64."
        )
    if probe_result.forks:
        sentences.append(f"No watched forks ({probe_result.forks}): for L1, use Linux from 5.3 on.")
    return sentences


def describe_refusal(probe_result: Probe, level: str) -> str:
    """Returns the sentence for who wants more than there is."""
    if level not in LEVELS:
        return f"There is no sandbox level {level!r}: the levels are {', '.join(reversed(LEVELS))}."
    if level == "L0":
        return "L0 is no jail: use sandbox.Workers."
    reasons = " ".join(describe_missing(probe_result))
    return f"This machine has a sandbox of level {get_level(probe_result)}, not {level}. {reasons}"


def to_data(probe_result: Probe) -> dict[str, str | bool | int]:
    """Returns the probe as plain data."""
    return asdict(probe_result)
