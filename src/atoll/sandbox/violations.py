"""Messages about candidates that violated a limit."""

import errno
import math
import signal
from typing import NamedTuple

from atoll.sandbox.limits import Limits
from atoll.sandbox.process import worker

_FORBIDDEN_ERRNOS = (errno.EPERM, errno.EACCES, errno.EROFS)
CANCELED = "it was ended"  # of a candidate whose result is not needed any more
_process_limits: Limits | None = None  # of this process, if it is an isolated candidate process


class ResourceUsage(NamedTuple):
    """Resource usage of one request."""

    seconds: float
    cpu_seconds: float
    memory_mb: float


class LimitViolation(NamedTuple):
    """Failure of the candidate, and a note with the limit and the usage."""

    failure: str
    note: str = ""


def describe_violation(error: BaseException, limits: Limits) -> str | None:
    """Returns the failure if an exception was caused by a limit, otherwise None."""
    match error:
        case MemoryError() if limits.memory_mb is not None:
            return f"it used more than {limits.memory_mb} MiB"
        case OSError(errno=errno.EFBIG | errno.ENOSPC | errno.EDQUOT):
            return f"it wrote more than {limits.disk_mb} MiB to files"
        case OSError(errno=errno.EMFILE):
            return f"it opened more than {limits.num_files} files"
        case OSError(errno=errno.EAGAIN) | RuntimeError(args=["can't start new thread"]):
            return f"it started more than {limits.num_processes} threads or processes"
        case OSError(errno=code) if code in _FORBIDDEN_ERRNOS:
            return f"the sandbox does not allow it: {worker.describe(error)}"
    return None


def describe_error(error: BaseException) -> str:
    """Describes an exception for a job that continues after it; names the limit that caused it."""
    return (_process_limits and describe_violation(error, _process_limits)) or worker.describe(error)


def set_process_limits(limits: Limits) -> None:
    """Sets the limits of this process, for `describe_error`."""
    global _process_limits
    _process_limits = limits


def compute_cpu_limit(limits: Limits) -> int:
    """Returns the processor time limit in whole seconds, as the kernel needs it."""
    requested = limits.seconds + 1 if limits.cpu_seconds is None else limits.cpu_seconds
    return max(1, math.ceil(min(requested, 1e9)))


def describe_exit(status: int, usage: ResourceUsage, limits: Limits) -> LimitViolation:
    """Explains the end of a process without a result; `status` is its exit code, or minus the signal."""
    code = status if status >= 0 else -status
    cpu_limit = compute_cpu_limit(limits)
    if status < 0 and (code == signal.SIGXCPU or (code == signal.SIGKILL and usage.cpu_seconds >= cpu_limit)):
        return LimitViolation(
            f"it used more than {cpu_limit} s of processor time", format_note("processor time", f"{cpu_limit} s", usage)
        )
    if status < 0 and code == signal.SIGXFSZ:
        size = f"{limits.disk_mb} MiB"
        return LimitViolation(f"it wrote more than {size} to files", format_note("files", size, usage))
    if status >= 0:
        return LimitViolation(f"it left its process with exit status {status}")
    try:
        return LimitViolation(f"its process died with signal {code} ({signal.Signals(code).name})")
    except ValueError:
        return LimitViolation(f"its process died with signal {code}")


def describe_timeout(usage: ResourceUsage, limits: Limits) -> LimitViolation:
    return LimitViolation(
        f"it took longer than {limits.seconds:g} s", format_note("wall clock", f"{limits.seconds:g} s", usage)
    )


def describe_cancellation(usage: ResourceUsage, limits: Limits) -> LimitViolation:
    return LimitViolation(CANCELED)


def describe_disk_overuse(usage: ResourceUsage, limits: Limits) -> LimitViolation:
    size = f"{limits.disk_mb} MiB"
    return LimitViolation(f"it wrote more than {size} to files", format_note("files", size, usage))


def describe_output_overuse(usage: ResourceUsage, limits: Limits) -> LimitViolation:
    max_output = worker.format_bytes(limits.output_bytes)
    return LimitViolation(f"it returned more than {max_output}", format_note("output", max_output, usage))


def format_note(kind: str, limit: str, usage: ResourceUsage) -> str:
    """Returns the line that is added to the output: the limit and the usage."""
    usage_text = (
        f"{usage.seconds:.2f} s, {usage.cpu_seconds:.2f} s of processor time, {usage.memory_mb:.0f} MiB at most"
    )
    return f"[sandbox] limit of {kind}: {limit}; used: {usage_text}"
