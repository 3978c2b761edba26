"""Cleaning and measuring of what candidates leave or use: scratch folders, removed files, memory."""

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Iterator, Sequence

_MAX_PENDING = 200


def wipe(folder: str) -> None:
    """Empties a folder without recursion or long paths, because a candidate may have nested it very deep.

    The entries of subfolders move to the top until nothing is left. No process may write to the folder meanwhile.

    Raises:
        OSError: An entry cannot be removed.
    """
    top_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(top_fd, 0o700)  # a candidate may have changed the mode
        new_names = (f".wiped-{os.urandom(8).hex()}-{count}" for count in itertools.count())
        while names := os.listdir(top_fd):
            for name in names:
                _remove(top_fd, name, new_names)
    finally:
        os.close(top_fd)


def _remove(top_fd: int, name: str, new_names: Iterator[str]) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=top_fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top_fd)
        return
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top_fd)
        return
    os.chmod(name, 0o700, dir_fd=top_fd)
    folder_fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top_fd)
    try:
        for entry in os.listdir(folder_fd):
            if stat.S_ISDIR(os.stat(entry, dir_fd=folder_fd, follow_symlinks=False).st_mode):
                os.chmod(entry, 0o700, dir_fd=folder_fd)  # moving a folder changes its `..`
            os.rename(entry, next(new_names), src_dir_fd=folder_fd, dst_dir_fd=top_fd)
    finally:
        os.close(folder_fd)
    os.rmdir(name, dir_fd=top_fd)


def measure_size(folder: str, limit: int) -> int:
    """Returns the size of a folder in bytes; stops counting above `limit`.

    Uses descriptors instead of paths, which may be too long, and opens folders that a candidate closed to others. It
    keeps open only folders that are not finished; too many of them count as too large.
    """
    total, pending = 0, list[tuple[int, list[str]]]()  # open folders with their subfolders
    try:
        top_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        total += _list_subfolders(top_fd, pending)
        while pending and total <= limit:
            folder_fd, names = pending[-1]
            if not names:
                os.close(pending.pop()[0])
                continue
            with contextlib.suppress(OSError):  # it was removed meanwhile
                child_fd = _open_folder(names.pop(), folder_fd)
                if not names:
                    os.close(pending.pop()[0])
                total += _list_subfolders(child_fd, pending)
            if len(pending) > _MAX_PENDING:
                return limit + 1
    except OSError:
        pass
    finally:
        for folder_fd, _ in pending:
            os.close(folder_fd)
    return total


def _list_subfolders(folder_fd: int, pending: list[tuple[int, list[str]]]) -> int:
    """Adds an open folder with the names of its subfolders; returns the size of its entries."""
    total, subfolders = 0, list[str]()
    pending.append((folder_fd, subfolders))
    for name in os.listdir(folder_fd):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
            total += max(status.st_blocks * 512, 512)
            subfolders += [name] if stat.S_ISDIR(status.st_mode) else []
    return total


def _open_folder(name: str, parent_fd: int) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=parent_fd)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent_fd)
        return os.open(name, flags, dir_fd=parent_fd)


def measure_removed_files(pids: Sequence[int]) -> int:
    """Returns the size of files that processes removed but still have open or mapped, in bytes.

    Needs /proc, and processes that this one may inspect.
    """
    sizes = dict[tuple[int, int], int]()
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    status = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
            with open(f"/proc/{pid}/maps", errors="replace") as maps:
                for line in maps:
                    if line.endswith("(deleted)\n"):
                        start, _, end = line.split(maxsplit=1)[0].partition("-")
                        device, inode = line.split(maxsplit=5)[3:5]
                        key = (hash(device), int(inode))
                        sizes[key] = sizes.get(key, 0) + int(end, 16) - int(start, 16)
    return sum(sizes.values())


def list_descendants(pid: int) -> list[int]:
    """Returns a process and its descendants."""
    pids = [pid]
    for parent in pids:  # grows during the loop
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    pids += map(int, file.read().split())
    return pids


def measure_memory(pids: Sequence[int], shared_bytes: int) -> int:
    """Returns the memory of processes in bytes, shared pages once.

    Args:
        pids: The processes.
        shared_bytes: Memory that each process shares with its fork server; used if the kernel shows only totals.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            try:
                total += _sum_fields(f"/proc/{pid}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))
            except PermissionError:
                total += max(_sum_fields(f"/proc/{pid}/status", ("RssAnon:", "RssShmem:")) - shared_bytes, 0)
    return total


def _sum_fields(path: str, names: Sequence[str]) -> int:
    with open(path) as file:
        return sum(1024 * int(line.split()[1]) for line in file if line.startswith(tuple(names)))


def reset_attributes(folder: str, original_size: int) -> bool:
    """Resets mode and times of an empty folder; returns False if it still shows that it had many entries."""
    os.chmod(folder, 0o700)
    os.utime(folder, ns=(0, 0))
    return os.stat(folder).st_size <= original_size


def remove_folder(folder: str) -> None:
    """Removes a folder into which children of a dead worker may write for another moment."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            wipe(folder)
            os.rmdir(folder)
        if not os.path.exists(folder):
            break
        time.sleep(0.01)
