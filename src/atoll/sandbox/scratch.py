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
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(top, 0o700)  # where a candidate may change modes, it may have changed that of the folder itself
        fresh = (f".wiped-{os.urandom(8).hex()}-{count}" for count in itertools.count())
        while names := os.listdir(top):
            for name in names:
                _remove(top, name, fresh)
    finally:
        os.close(top)


def _remove(top: int, name: str, fresh: Iterator[str]) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for each in os.listdir(below):
            if stat.S_ISDIR(os.stat(each, dir_fd=below, follow_symlinks=False).st_mode):
                os.chmod(each, 0o700, dir_fd=below)  # a folder that moves is written to, for its `..`
            os.rename(each, next(fresh), src_dir_fd=below, dst_dir_fd=top)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=top)


def size(folder: str, most: int) -> int:
    """Returns how many bytes lie in a folder, counting no further than `most`."""
    total, folders = 0, [folder]
    while folders and total <= most:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(entry.stat(follow_symlinks=False).st_blocks * 512, 512)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
