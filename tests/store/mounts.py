"""Commands before which a folder or a file cannot be written, not even by root."""

from pathlib import Path

_MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def read_only(place: Path, *command: str) -> list[str]:
    """Returns a command to which a place is read-only; to others it is as it was."""
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", _MOUNTED, str(place), *command]
