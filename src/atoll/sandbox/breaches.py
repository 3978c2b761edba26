"""What to say of a candidate that broke a limit."""

import errno
import math
import signal
from typing import NamedTuple

from atoll.sandbox import worker
from atoll.sandbox.limits import Limits

_FORBIDDEN = (errno.EPERM, errno.EACCES, errno.EROFS)
_bound: Limits | None = None  # those of this process, if it is a candidate's in a jail


class Used(NamedTuple):
    """What a request took."""

    seconds: float
    cpu_seconds: float
    memory_mb: float


class Breach(NamedTuple):
    """One sentence for people, and the line that explains it: which limit, and what was used."""

    failure: str
    note: str = ""


def raised(error: BaseException, limits: Limits) -> str | None:
    """Returns the sentence for an exception that came of a limit; None: it came of something else."""
    match error:
        case MemoryError() if limits.memory_mb is not None:
            return f"it used more than {limits.memory_mb} MiB"
        case OSError(errno=errno.EFBIG | errno.ENOSPC | errno.EDQUOT):
            return f"it wrote more than {limits.disk_mb} MiB to files"
        case OSError(errno=errno.EMFILE):
            return f"it opened more than {limits.num_files} files"
        case OSError(errno=errno.EAGAIN) | RuntimeError(args=["can't start new thread"]):
            return f"it started more than {limits.num_processes} threads or processes"
        case OSError(errno=number) if number in _FORBIDDEN:
            return f"it tried what the jail forbids: {worker.told(error)}"
    return None


def told(error: BaseException) -> str:
    """Returns what a job says of an exception that it goes on after: which limit it came of, else what it says."""
    return (_bound and raised(error, _bound)) or worker.told(error)


def bind(limits: Limits) -> None:
    """Says which limits hold for this process, for good."""
    global _bound
    _bound = limits


def cpu_seconds(limits: Limits) -> int:
    """Returns the processor time that a process may use, in whole seconds, as the kernel counts it."""
    wanted = limits.seconds + 1 if limits.cpu_seconds is None else limits.cpu_seconds
    return max(1, math.ceil(min(wanted, 1e9)))


def ended(status: int, used: Used, limits: Limits) -> Breach:
    """Returns what became of a process that gave no answer, from its wait status."""
    code = status if status >= 0 else -status
    most = cpu_seconds(limits)
    if status < 0 and (code == signal.SIGXCPU or (code == signal.SIGKILL and used.cpu_seconds >= most)):
        return Breach(f"it used more than {most} s of processor time", note("processor time", f"{most} s", used))
    if status < 0 and code == signal.SIGXFSZ:
        size = f"{limits.disk_mb} MiB"
        return Breach(f"it wrote more than {size} to files", note("files", size, used))
    if status >= 0:
        return Breach(f"it left its process with exit status {status}")
    try:
        return Breach(f"its process died with signal {code} ({signal.Signals(code).name})")
    except ValueError:
        return Breach(f"its process died with signal {code}")


def took_too_long(used: Used, limits: Limits) -> Breach:
    return Breach(f"it took longer than {limits.seconds:g} s", note("wall clock", f"{limits.seconds:g} s", used))


def wrote_too_much(used: Used, limits: Limits) -> Breach:
    size = f"{limits.disk_mb} MiB"
    return Breach(f"it wrote more than {size} to files", note("files", size, used))


def returned_too_much(used: Used, limits: Limits) -> Breach:
    most = worker.amount(limits.output_bytes)
    return Breach(f"it returned more than {most}", note("output", most, used))


def note(kind: str, most: str, used: Used) -> str:
    """Returns the line that is added to the output: the limit, and what was used."""
    took = f"{used.seconds:.2f} s, {used.cpu_seconds:.2f} s of processor time, {used.memory_mb:.0f} MiB at most"
    return f"[jail] limit of {kind}: {most}; used: {took}"
