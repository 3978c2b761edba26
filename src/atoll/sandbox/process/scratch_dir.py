"""Cleaning and measuring of scratch folders, whose content is untrusted."""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator


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
    """Returns the size of a folder in bytes; stops counting above `limit`."""
    total, folders = 0, [folder]
    while folders and total <= limit:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(entry.stat(follow_symlinks=False).st_blocks * 512, 512)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
