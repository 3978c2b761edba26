"""Cleaning, measuring and limiting of what candidates leave or use: scratch folders, removed files, memory."""

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence

from atoll.sandbox.limits import Limits

_MAX_PENDING = 200
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
CGROUP_FOLDER = "/sys/fs/cgroup"
# Files of a control group by version: memory in use, limits of memory and swap, limit of processes, killed processes.
_V1_FILES = {
    "used": "memory.usage_in_bytes",
    "memory": "memory.limit_in_bytes",
    "swap": "memory.memsw.limit_in_bytes",
    "tasks": "pids.max",
    "kills": "memory.oom_control",
}
_V2_FILES = {
    "used": "memory.current",
    "memory": "memory.max",
    "swap": "memory.swap.max",
    "tasks": "pids.max",
    "kills": "memory.events",
}


def wipe(folder: str) -> None:
    """Empties a folder without recursion or long paths, because a candidate may have nested it very deep.

    The entries of subfolders move to the top until nothing is left. No process may write to the folder meanwhile.

    Raises:
        OSError: An entry cannot be removed.
    """
    top_fd = os.open(folder, _OPEN_FOLDER)
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
    folder_fd = os.open(name, _OPEN_FOLDER, dir_fd=top_fd)
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
        top_fd = _open_without_time(folder)
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
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=parent_fd)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent_fd)
        return os.open(name, _OPEN_FOLDER, dir_fd=parent_fd)


def _open_without_time(folder: str) -> int:
    """Opens a folder so that looking at it leaves no time that the candidate sees."""
    try:
        return os.open(folder, _OPEN_FOLDER | os.O_NOATIME)
    except PermissionError:  # the folder belongs to another user
        return os.open(folder, _OPEN_FOLDER)


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


class ControlGroup:
    """Kernel group (cgroups v1 or v2) of a fork server and its candidates, with limits for all of them together.

    Args:
        folders: Its folders: one in v2, one or two in v1.
        files: Names of its files; see `_V1_FILES`.
    """

    def __init__(self, folders: Sequence[str], files: Mapping[str, str]) -> None:
        self._folders, self._files = folders, files

    @classmethod
    def create(cls, pid: int) -> "ControlGroup | None":
        """Moves a process into a new group; None if this machine or user cannot create one."""
        name = f"atoll-{pid}-{os.urandom(4).hex()}"
        for parents, files in _iter_hierarchies():
            folders = [os.path.join(parent, name) for parent in parents]
            group = cls(folders, files)
            try:
                for folder in folders:
                    os.mkdir(folder)
                for folder in folders:
                    _write_value(os.path.join(folder, "cgroup.procs"), pid)
                group.count_kills()
                return group
            except OSError:
                for parent in parents:
                    with contextlib.suppress(OSError):
                        _write_value(os.path.join(parent, "cgroup.procs"), pid)
                group.remove()
        return None

    def limit(self, num_tasks: int, extra_bytes: int | None) -> bool:
        """Limits the number of processes, and the memory to this much more than its use; returns False if it fails."""
        try:
            _write_value(self._find("tasks"), num_tasks)
            if extra_bytes is None:
                return True
            with open(self._find("used")) as file:
                max_bytes = int(file.read()) + extra_bytes
            _write_value(self._find("memory"), max_bytes)
        except OSError:  # a controller is missing
            return False
        with contextlib.suppress(OSError):  # swap is not counted everywhere
            _write_value(self._find("swap"), max_bytes if self._files is _V1_FILES else 0)
        return True

    def count_kills(self) -> int:
        """Returns how many processes were killed because the group used too much memory."""
        with open(self._find("kills")) as file:
            counts = dict(line.split() for line in file)
        return int(counts.get("oom_kill", 0))

    def _find(self, key: str) -> str:
        """Returns the path of a file. A missing one has a controller that is not available."""
        paths = [os.path.join(folder, self._files[key]) for folder in self._folders]
        return next((path for path in paths if os.path.exists(path)), paths[0])

    def remove(self) -> None:
        """Removes the group; its processes may need another moment to end."""
        for folder in self._folders:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                if not os.path.exists(folder):
                    break
                time.sleep(0.01)


def describe_overuse(group: ControlGroup | None, pid: int, num_servers: int, limits: Limits) -> str:
    """Returns which limit the processes of a candidate exceed in all; an empty text: none.

    Args:
        group: Their group, which limits them; None: they are counted and measured here.
        pid: First process of the fork server.
        num_servers: Number of its own processes, parents before children.
        limits: Limits of the candidate.
    """
    memory_text = f"its processes used more than {limits.memory_mb} MiB in all"
    if group:
        return memory_text if group.count_kills() else ""
    pids = list_descendants(pid)
    if len(pids) - num_servers > limits.num_processes + 1:
        return f"it had more than {limits.num_processes} processes"
    shared_bytes = measure_memory(pids[num_servers - 1 : num_servers], 0)
    used_bytes = measure_memory(pids[num_servers:], shared_bytes)
    return memory_text if limits.memory_mb is not None and used_bytes > limits.memory_mb * 2**20 else ""


def _iter_hierarchies() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yields folders in which a group could be made, and the names of its files."""
    try:
        with open("/proc/self/cgroup") as file:
            own = {tuple(line.strip().split(":", 2)[1].split(",")): line.strip().split(":", 2)[2] for line in file}
    except OSError:
        return
    v1 = [
        _find_own_folder(os.path.join(CGROUP_FOLDER, ",".join(controllers)), path)
        for controllers, path in own.items()
        if "memory" in controllers or "pids" in controllers
    ]
    if v1:
        yield v1, _V1_FILES
    for root in (CGROUP_FOLDER, os.path.join(CGROUP_FOLDER, "unified")):
        if ("",) in own and os.path.exists(os.path.join(root, "cgroup.controllers")):
            folder = _find_own_folder(root, own["",])
            yield [folder], _V2_FILES
            if folder != root:  # a group with processes cannot divide its memory, but its parent can
                yield [os.path.dirname(folder)], _V2_FILES


def _find_own_folder(root: str, path: str) -> str:
    folder = os.path.join(root, path.lstrip("/")).rstrip("/")
    return folder if os.path.isdir(folder) else root  # in a container, the root may be the own group


def _write_value(path: str, value: int) -> None:
    with open(path, "w") as file:
        file.write(str(value))


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
