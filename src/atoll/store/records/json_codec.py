"""Converts plain data to JSON text and back. Long texts are stored as blobs."""

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from atoll import errors

LONG_TEXT_CHARS = 8192  # SQLite reads rows of many pages slowly, and prompts repeat

type JSONPath = tuple[str | int, ...]


class Blob(NamedTuple):
    """Bytes of a text or an artifact as stored, with their hash."""

    sha256: str
    size: int
    is_compressed: bool
    stored: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> "Blob":
        compressed = zlib.compress(data)
        is_smaller = len(compressed) < len(data)
        return cls(hashlib.sha256(data).hexdigest(), len(data), is_smaller, compressed if is_smaller else data)

    def decompress(self) -> bytes:
        return zlib.decompress(self.stored) if self.is_compressed else self.stored


class PackedJSON(NamedTuple):
    """JSON text; `links` lists the places and hashes of its blobs, as JSON."""

    text: str
    links: str | None = None
    blobs: Sequence[Blob] = ()


def pack(data: Mapping[str, Any], max_chars: int = LONG_TEXT_CHARS) -> PackedJSON:
    """Encodes plain data as JSON; texts of more than `max_chars` characters become blobs.

    Raises:
        ValueError: A number is not finite.
        TypeError: A value is not plain data.
    """
    text = encode(data)
    if len(text) <= max_chars:  # no text in it can be long
        return PackedJSON(text)
    long_texts: list[tuple[JSONPath, Blob]] = []
    shortened = _extract_long_texts(json.loads(text), max_chars, (), long_texts)
    if not long_texts:
        return PackedJSON(text)
    links = [[*path, blob.sha256] for path, blob in long_texts]
    return PackedJSON(encode(shortened), encode(links), [blob for _, blob in long_texts])


def unpack(text: str, links: str | None, load_blob: Callable[[str], bytes]) -> dict[str, Any]:
    """Decodes the result of `pack`; `load_blob` returns a blob by its hash.

    Raises:
        StoreFailed: The row is damaged.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        for *path, key, sha256 in json.loads(links) if links else ():
            node: Any = data
            for part in path:
                node = node[part]
            node[key] = load_blob(sha256).decode("utf-8", "surrogatepass")
    except (ValueError, TypeError, LookupError, zlib.error) as error:
        raise errors.StoreFailed(f"A row of the store is damaged: {error}. Restore a backup.") from error
    return data


def _extract_long_texts(data: Any, max_chars: int, path: JSONPath, long_texts: list[tuple[JSONPath, Blob]]) -> Any:
    """Replaces every long text by null and adds it to `long_texts` with its path."""
    match data:
        case str() if len(data) > max_chars:
            long_texts.append((path, Blob.from_bytes(data.encode("utf-8", "surrogatepass"))))
            return None
        case dict():
            return {key: _extract_long_texts(value, max_chars, (*path, key), long_texts) for key, value in data.items()}
        case list():
            return [
                _extract_long_texts(value, max_chars, (*path, index), long_texts) for index, value in enumerate(data)
            ]
    return data


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}, which is not plain data")


# ASCII: every database can store it, even surrogates and zero bytes.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_to_plain)


def encode(data: object) -> str:
    """Encodes plain data as compact JSON; raises like `pack`."""
    try:
        return _encoder.encode(data)
    except ValueError as error:
        raise ValueError(f"only finite numbers and plain data can be stored: {error}") from error


class JSONReader[T]:
    """Decodes JSON to one type; skips unknown fields.

    msgspec rejects lone surrogates, which a journal may contain; then the standard library decodes, ten times slower.
    """

    def __init__(self, target_type: type[T]) -> None:
        self._target_type, self._decoder = target_type, msgspec.json.Decoder(target_type)

    def read(self, text: str) -> T:
        """Decodes a JSON text.

        Raises:
            msgspec.ValidationError: The data does not match the type.
        """
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(text), self._target_type)


dict_reader: JSONReader[Any] = JSONReader(dict)
