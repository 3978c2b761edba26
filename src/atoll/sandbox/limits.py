"""What one evaluation may use; imported by the processes of candidates, so it needs little."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may use.

    Attributes:
        seconds: Wall clock; whoever takes longer is killed.
        memory_mb: Address space of the worker in MiB; None: no limit.
        output_bytes: Size of what a job may return, and of what is kept of its printing.
        cpu_seconds: Processor time of each process, in a jail; None: about `seconds`, as of one busy thread.
        disk_mb: All that is written to files, in a jail; of a single file, everywhere.
        num_processes: Threads and processes at once, in a jail.
        num_files: Files that are open at once, in a jail.
    """

    seconds: float = 30.0
    memory_mb: int | None = 2048
    output_bytes: int = 1_000_000
    cpu_seconds: float | None = None
    disk_mb: int = 256
    num_processes: int = 64
    num_files: int = 256
