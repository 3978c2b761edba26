"""Sandbox levels, and the probe that finds the strongest level of this machine."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from atoll.sandbox.permissions import PACKAGES_FOLDER

LEVELS = {
    "L3": "namespaces, Landlock, seccomp and limits",
    "L2": "Landlock, seccomp and limits; no namespaces",
    "L1": "limits, seccomp if available; files not protected",
    "L0": "a separate process with limits",
}
ISOLATED_LEVELS = ("L1", "L2", "L3")
_PROBE_SECONDS = 60.0
_PROBE_SCRIPT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from atoll.sandbox.linux import probe_main; probe_main.main()"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """Features of this machine's kernel. A text is empty if the feature works, otherwise it is the error.

    Attributes:
        namespaces: Error of creating a private root, process tree and network.
        needs_user: Whether namespaces need a user namespace, as for everyone except root.
        landlock: Error of restricting files.
        landlock_abi: Landlock version; 0: none.
        seccomp: Error of restricting system calls.
        forks: Error of forking and watching a process.
        advice: How to enable namespaces, if known.
    """

    namespaces: str = ""
    needs_user: bool = False
    landlock: str = ""
    landlock_abi: int = 0
    seccomp: str = ""
    forks: str = ""
    advice: str = ""


NOT_PROBED = "not Linux"
_FAILED = "the probe failed: "


@functools.cache
def probe() -> Probe:
    """Probes this machine; cached for this process."""
    if not sys.platform.startswith("linux"):
        return Probe(NOT_PROBED, False, NOT_PROBED, 0, NOT_PROBED, NOT_PROBED)
    completed = None
    try:
        completed = subprocess.run(
            [sys.executable, "-P", "-c", _PROBE_SCRIPT, PACKAGES_FOLDER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ},
        )
        return Probe(**json.loads(completed.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        lines = completed.stderr.decode(errors="replace").split("\n") if completed else []
        message = f"{_FAILED}{next((line for line in reversed(lines) if line.strip()), error)}"
        return Probe(message, False, message, 0, message, message)


def get_level(probe_result: Probe) -> str:
    """Returns the strongest level whose features all work."""
    if probe_result.forks:
        return "L0"
    if probe_result.landlock or probe_result.seccomp:
        return "L1"
    return "L2" if probe_result.namespaces else "L3"


def describe_missing(probe_result: Probe) -> Sequence[str]:
    """Returns a sentence for each feature missing for L3: the feature, the error, the remedy."""
    if probe_result.forks.startswith(_FAILED):
        return [
            f"The features of this machine are unknown: {probe_result.forks}. Sandboxes do not read PYTHONPATH: "
            "install Atoll and its packages with pip."
        ]
    sentences = []
    if probe_result.namespaces:
        advice = probe_result.advice or "allow this user to create namespaces"
        sentences.append(f"No namespaces ({probe_result.namespaces}): for L3, {advice}.")
    if probe_result.landlock:
        sentences.append(
            f"No Landlock ({probe_result.landlock}): for L2, use Linux 5.13 or newer with landlock in its lsm= list, "
            "and a container runtime that allows it."
        )
    if probe_result.seccomp:
        sentences.append(
            f"No seccomp filters ({probe_result.seccomp}): for L2, use a kernel with CONFIG_SECCOMP_FILTER on x86_64 "
            "or aarch64."
        )
    if probe_result.forks:
        sentences.append(f"No process file descriptors ({probe_result.forks}): for L1, use Linux 5.3 or newer.")
    return sentences


def describe_refusal(probe_result: Probe, level: str) -> str:
    """Returns the error message for a level that this machine does not have."""
    if level not in LEVELS:
        return f"Sandbox level {level!r} does not exist. Use one of {', '.join(reversed(LEVELS))}."
    if level == "L0":
        return "L0 is not isolated. Use sandbox.ProcessSandbox."
    reasons = " ".join(describe_missing(probe_result))
    return f"This machine has sandbox level {get_level(probe_result)}, not {level}. {reasons}"


def to_data(probe_result: Probe) -> dict[str, str | bool | int]:
    return asdict(probe_result)
