"""Plain data as JSON text, with long texts taken out."""

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from atoll import errors

LONG = 8192  # characters; SQLite reads a row that spills over many pages slowly, and prompts repeat


type Path = tuple[str | int, ...]


class Body(NamedTuple):
    """What the blobs keep of a text or an artifact."""

    sha256: str
    size: int
    is_compressed: bool
    stored: bytes

    @classmethod
    def of(cls, body: bytes) -> "Body":
        packed = zlib.compress(body)
        helps = len(packed) < len(body)
        return cls(hashlib.sha256(body).hexdigest(), len(body), helps, packed if helps else body)

    def open(self) -> bytes:
        return zlib.decompress(self.stored) if self.is_compressed else self.stored


class Packed(NamedTuple):
    """Data as text; `links` says in JSON which bodies belong where in it."""

    text: str
    links: str | None = None
    bodies: Sequence[Body] = ()


def pack(data: Mapping[str, Any], long: int = LONG) -> Packed:
    """Writes plain data as JSON, texts of more than `long` characters apart.

    Raises:
        ValueError: A number in it is not finite.
        TypeError: Something in it is no plain data.
    """
    text = encode(data)
    if len(text) <= long:  # so no text in it is long either
        return Packed(text)
    found: list[tuple[Path, Body]] = []
    short = _without_long(json.loads(text), long, (), found)
    if not found:
        return Packed(text)
    links = [[*path, body.sha256] for path, body in found]
    return Packed(encode(short), encode(links), [body for _, body in found])


def unpack(text: str, links: str | None, get: Callable[[str], bytes]) -> dict[str, Any]:
    """Reads back what `pack` wrote; `get` finds a body by its hash.

    Raises:
        StoreFailed: It is not what was written.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        for *path, name, sha256 in json.loads(links) if links else ():
            place: Any = data
            for each in path:
                place = place[each]
            place[name] = get(sha256).decode("utf-8", "surrogatepass")
    except (ValueError, TypeError, LookupError, zlib.error) as error:
        raise errors.StoreFailed(f"A row of the store is damaged ({error}): use a copy that is whole.") from error
    return data


def _without_long(data: Any, long: int, path: Path, found: list[tuple[Path, Body]]) -> Any:
    """Returns the data with null for every long text, and notes the texts with their places."""
    match data:
        case str() if len(data) > long:
            found.append((path, Body.of(data.encode("utf-8", "surrogatepass"))))
            return None
        case dict():
            return {name: _without_long(each, long, (*path, name), found) for name, each in data.items()}
        case list():
            return [_without_long(each, long, (*path, place), found) for place, each in enumerate(data)]
    return data


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}, which is no plain data")


# In ASCII, so that any text goes through any database: half surrogates and zero bytes too.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)


def encode(data: object) -> str:
    """Writes plain data as compact JSON; raises as `pack` does."""
    try:
        return _encoder.encode(data)
    except ValueError as error:
        raise ValueError(f"only finite numbers and plain data can be stored: {error}") from error
