"""Blobs, stored by hash."""

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, select

from atoll import errors, evaluation
from atoll.store.database import schema
from atoll.store.database.database import Database, retry_transaction
from atoll.store.records.json_codec import Blob

HEAD_BYTES = 80
MAX_INLINE_BYTES = 2000  # of a blob inside its reference; most artifacts are a line or two


class Blobs:
    """Stores each blob once for all runs, compressed if that helps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, data: bytes) -> evaluation.BlobRef:
        """Stores bytes under their hash."""
        blob = Blob.from_bytes(data)
        retry_transaction(lambda: self._put(blob))
        head = data[:HEAD_BYTES].decode("utf-8", "replace")
        return evaluation.BlobRef(blob.sha256, blob.size, head)

    def _put(self, blob: Blob) -> None:
        with self._database.begin_write() as connection:
            insert_blobs(connection, [blob])

    def save_blob(self, data: bytes) -> evaluation.BlobRef:
        """Stores bytes and returns a reference for `load_blob`; a short text is stored in the reference itself."""
        return make_inline_ref(data) or self.put(data)

    def load_blob(self, ref: evaluation.BlobRef) -> bytes:
        """Returns the bytes of a reference.

        Raises:
            NotFound: The blob is not stored.
        """
        data = read_inline(ref)
        return self.get(ref.sha256) if data is None else data

    def get(self, sha256: str) -> bytes:
        """Returns the bytes with a hash.

        Raises:
            NotFound: The blob is not stored.
        """
        row = retry_transaction(lambda: self._get(sha256))
        if row is None:
            raise errors.NotFound(f"Blob {sha256} not found.")
        return Blob(*row).decompress()

    def _get(self, sha256: str) -> Sequence[Any] | None:
        with self._database.begin_read() as connection:
            return connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()


def make_inline_ref(data: bytes) -> evaluation.BlobRef | None:
    """Returns a reference that contains a short text; None if the data is long or not text."""
    if len(data) > MAX_INLINE_BYTES:
        return None
    try:
        return evaluation.BlobRef(hashlib.sha256(data).hexdigest(), len(data), data.decode())
    except UnicodeDecodeError:
        return None


def read_inline(ref: evaluation.BlobRef) -> bytes | None:
    """Returns the bytes that a reference contains, or None."""
    data = ref.head.encode("utf-8", "surrogatepass")
    return data if len(data) == ref.size and hashlib.sha256(data).hexdigest() == ref.sha256 else None


def insert_blobs(connection: Connection, blobs: Iterable[Blob]) -> None:
    """Stores blobs inside the caller's transaction."""
    rows = [
        {"sha256": blob.sha256, "size": blob.size, "is_compressed": blob.is_compressed, "body": blob.stored}
        for blob in sorted(blobs)  # the same order for all writers avoids deadlocks
    ]
    if rows:
        connection.execute(_make_insert(connection.dialect.name), rows)


@functools.cache
def _make_insert(dialect: str) -> Insert:
    statement: Insert = schema.insert_for(dialect)(schema.blobs).on_conflict_do_nothing()
    return statement
