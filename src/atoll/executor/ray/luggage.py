"""The task's files on their way to other machines: sent once to a node, and only if it does not have them."""

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from atoll import errors

MOST_BYTES = 256 * 2**20
_LEFT = ("__pycache__", "node_modules")  # besides all that is hidden


@dataclass(frozen=True, slots=True)
class Piece:
    """One file or folder.

    Attributes:
        path: Where it lies at home, absolute.
        is_folder: Whether it is one.
        digest: Of all that is in it.
    """

    path: str
    is_folder: bool
    digest: str


@dataclass(frozen=True, slots=True)
class Luggage:
    """What a task needs on every node: its folder, and what else it may read."""

    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Luggage":
        """Looks at what is to be sent; one path that lies in another goes with it.

        Raises:
            SetupError: It is too much, or cannot be read.
        """
        real = sorted({os.path.abspath(path) for path in paths})
        tops = [path for path in real if not any(path.startswith(other + os.sep) for other in real)]
        size = sum(file.stat().st_size for top in tops for file in _files(top))
        if size > MOST_BYTES:
            raise errors.SetupError(
                f"{', '.join(tops)} hold {size / 2**20:.0f} MiB, and every node would get them: put the data where all "
                f"nodes see it under the same path, in a folder of its own; up to {MOST_BYTES // 2**20} MiB travel."
            )
        return cls(tuple(Piece(top, os.path.isdir(top), digest(top)) for top in tops))

    def packed(self) -> bytes:
        """Returns all pieces as one archive."""
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w", dereference=True) as archive:
            for number, piece in enumerate(self.pieces):
                for file in _files(piece.path):
                    archive.add(file, _name(number, piece.path, file), recursive=False)
        return body.getvalue()

    def place_of(self, path: str) -> tuple[int, str] | None:
        """Returns which piece a path lies in, and where in it; None: it does not travel."""
        for number, piece in enumerate(self.pieces):
            if path == piece.path or path.startswith(piece.path + os.sep):
                return number, path[len(piece.path) :]
        return None


class Unpacked:
    """Luggage on a node: where it lay at home if the same lies there, else in a folder of its own.

    Attributes:
        roots: Where each piece is.
    """

    def __init__(self, luggage: Luggage, packed: bytes) -> None:
        self._luggage = luggage
        self.roots = [piece.path for piece in luggage.pieces]
        if any(not os.path.exists(piece.path) or digest(piece.path) != piece.digest for piece in luggage.pieces):
            folder = _unpack(packed)
            self.roots = [_root(folder, number, piece) for number, piece in enumerate(luggage.pieces)]
            for root in (root for root, piece in zip(self.roots, luggage.pieces, strict=True) if piece.is_folder):
                os.makedirs(root, exist_ok=True)  # an empty one leaves no trace in an archive

    def path(self, place: tuple[int, str]) -> str:
        """Returns where a path of home is here."""
        number, rest = place
        return self.roots[number] + rest

    def at_home(self, text: str) -> str:
        """Returns a text with the names of home, so that an answer does not hang on where it was found."""
        for piece, root in zip(self._luggage.pieces, self.roots, strict=True):
            text = text.replace(root, piece.path)
        return text


def digest(path: str) -> str:
    """Returns a hash of a file, or of all files of a folder with their names."""
    found = hashlib.sha256()
    for file in _files(path):
        body = file.read_bytes()
        found.update(f"{os.path.relpath(file, path)}\0{len(body)}\0".encode(errors="surrogateescape"))
        found.update(body)
    return found.hexdigest()


def _files(top: str) -> Iterator[Path]:
    """Yields the files of a folder that travel, sorted; or the file itself."""
    if os.path.isfile(top):
        yield Path(top)
    for folder, names, files in os.walk(top):
        names[:] = sorted(name for name in names if name not in _LEFT and not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() and not name.startswith(".") and path.suffix != ".pyc":
                yield path


def _root(folder: str, number: int, piece: Piece) -> str:
    top = os.path.join(folder, str(number))
    return top if piece.is_folder else os.path.join(top, os.path.basename(piece.path))


def _name(number: int, top: str, file: Path) -> str:
    rest = file.name if os.path.isfile(top) else os.path.relpath(file, top)
    return os.path.join(str(number), rest)


def _unpack(packed: bytes) -> str:
    """Unpacks an archive unless somebody of this user did so here before; returns the folder."""
    home = os.path.join(tempfile.gettempdir(), f"atoll-luggage-{os.geteuid()}")
    os.makedirs(home, mode=0o711, exist_ok=True)
    if os.stat(home).st_uid != os.geteuid():
        raise errors.SetupError(f"{home} belongs to somebody else: remove it, or set TMPDIR on the nodes.")
    folder = os.path.join(home, hashlib.sha256(packed).hexdigest()[:32])
    if not os.path.isdir(folder):
        fresh = tempfile.mkdtemp(dir=home)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(fresh, filter="data")
        os.chmod(fresh, 0o755)  # a jail of root's runs as another user
        try:
            os.rename(fresh, folder)
        except OSError:  # another seat was first
            shutil.rmtree(fresh)
    return folder
