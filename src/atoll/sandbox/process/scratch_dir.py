"""The folder of one evaluation, whatever a candidate built in it."""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator


def wipe(folder: str) -> None:
    """Empties a folder without recursion and without long paths: a candidate may have nested it as deep as it liked.

    Folders are flattened: what is in one moves up to the top, until nothing is left. Nobody may be writing meanwhile.

    Raises:
        OSError: Something cannot be removed.
    """
    top_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(top_fd, 0o700)  # where a candidate may change modes, it may have changed that of the folder itself
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
                os.chmod(entry, 0o700, dir_fd=folder_fd)  # a folder that moves is written to, for its `..`
            os.rename(entry, next(new_names), src_dir_fd=folder_fd, dst_dir_fd=top_fd)
    finally:
        os.close(folder_fd)
    os.rmdir(name, dir_fd=top_fd)


def measure_size(folder: str, limit: int) -> int:
    """Returns how many bytes lie in a folder, counting no further than `most`."""
    total, folders = 0, [folder]
    while folders and total <= limit:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(entry.stat(follow_symlinks=False).st_blocks * 512, 512)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
