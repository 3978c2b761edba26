"""Limits of one evaluation. Candidate processes import this module, so it imports little."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request. At L0 only `seconds`, `memory_mb` and `output_bytes` apply.

    Attributes:
        seconds: Wall-clock time.
        memory_mb: Address space in MiB; None: no limit.
        output_bytes: Size of the returned value, and of the printed output that is kept.
        cpu_seconds: Processor time of each process; None: `seconds` + 1.
        disk_mb: Size of all files in MiB.
        num_processes: Number of threads and processes.
        num_files: Number of open files.
        call_seconds: Time of one call of a program that is scored apart; None: `seconds` alone limits it.
        call_mb: Size of the arguments or the result of such a call in MiB.
    """

    seconds: float = 30.0
    memory_mb: int | None = 2048
    output_bytes: int = 1_000_000
    cpu_seconds: float | None = None
    disk_mb: int = 256
    num_processes: int = 64
    num_files: int = 256
    call_seconds: float | None = None
    call_mb: int = 64
