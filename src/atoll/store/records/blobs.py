"""Bodies by their hash."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select

from atoll import errors, evaluation
from atoll.store.database import schema
from atoll.store.database.database import Database, retry_transaction
from atoll.store.records.json_codec import Blob

HEAD_BYTES = 80
MAX_INLINE_BYTES = 2000  # what a journal's record may well hold itself: most artifacts are a line or two

_INSERTS = {name: schema.insert_for(name)(schema.blobs).on_conflict_do_nothing() for name in ("sqlite", "postgresql")}


class Blobs:
    """Keeps every body once, for all runs, compressed where that helps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, data: bytes) -> evaluation.BlobRef:
        """Stores a body under its hash; the same body twice is stored once."""
        blob = Blob.from_bytes(data)
        retry_transaction(lambda: self._put(blob))
        head = data[:HEAD_BYTES].decode("utf-8", "replace")
        return evaluation.BlobRef(blob.sha256, blob.size, head)

    def _put(self, blob: Blob) -> None:
        with self._database.begin_write() as connection:
            insert_blobs(connection, [blob])

    def save_blob(self, data: bytes) -> evaluation.BlobRef:
        """Returns a reference to a body that `body` gives back: a short text is in it whole, all else is stored."""
        return make_inline_ref(data) or self.put(data)

    def load_blob(self, ref: evaluation.BlobRef) -> bytes:
        """Returns what a reference stands for.

        Raises:
            NotFound: It is not stored.
        """
        data = read_inline(ref)
        return self.get(ref.sha256) if data is None else data

    def get(self, sha256: str) -> bytes:
        """Returns a body.

        Raises:
            NotFound: There is none under that hash.
        """
        row = retry_transaction(lambda: self._get(sha256))
        if row is None:
            raise errors.NotFound(f"There is no blob {sha256}.")
        return Blob(*row).decompress()

    def _get(self, sha256: str) -> Sequence[Any] | None:
        with self._database.begin_read() as connection:
            return connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()


def make_inline_ref(data: bytes) -> evaluation.BlobRef | None:
    """Returns a reference that holds a short text whole; None for what is long, or is no text."""
    if len(data) > MAX_INLINE_BYTES:
        return None
    try:
        return evaluation.BlobRef(hashlib.sha256(data).hexdigest(), len(data), data.decode())
    except UnicodeDecodeError:
        return None


def read_inline(ref: evaluation.BlobRef) -> bytes | None:
    """Returns the body that a reference holds whole, or None."""
    data = ref.head.encode("utf-8", "surrogatepass")
    return data if len(data) == ref.size and hashlib.sha256(data).hexdigest() == ref.sha256 else None


def insert_blobs(connection: Connection, blobs: Iterable[Blob]) -> None:
    """Stores bodies inside a transaction that somebody else began."""
    rows = [
        {"sha256": blob.sha256, "size": blob.size, "is_compressed": blob.is_compressed, "body": blob.stored}
        for blob in sorted(blobs)  # in one order for all, so that no two writers wait for each other
    ]
    if rows:
        connection.execute(_INSERTS[connection.dialect.name], rows)
