"""Commands that run with a read-only folder or file, even as root."""

from pathlib import Path

_MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def read_only(path: Path, *command: str) -> list[str]:
    """Returns a command for which a path is read-only; other processes can still write it."""
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", _MOUNTED, str(path), *command]
