"""Bodies by their hash."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select

from atoll import errors, evaluation
from atoll.store import schema
from atoll.store.database import Database
from atoll.store.packing import Body
from atoll.store.perseverance import persistently

HEAD_BYTES = 80
INLINE_BYTES = 2000  # what a journal's record may well hold itself: most artifacts are a line or two

_INSERTS = {name: schema.insert_for(name)(schema.blobs).on_conflict_do_nothing() for name in ("sqlite", "postgresql")}


class Blobs:
    """Keeps every body once, for all runs, compressed where that helps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, body: bytes) -> evaluation.BlobRef:
        """Stores a body under its hash; the same body twice is stored once."""
        packed = Body.of(body)
        persistently(lambda: self._put(packed))
        head = body[:HEAD_BYTES].decode("utf-8", "replace")
        return evaluation.BlobRef(packed.sha256, packed.size, head)

    def _put(self, packed: Body) -> None:
        with self._database.writing() as connection:
            keep(connection, [packed])

    def hold(self, body: bytes) -> evaluation.BlobRef:
        """Returns a reference to a body that `body` gives back: a short text is in it whole, all else is stored."""
        return inline(body) or self.put(body)

    def body(self, ref: evaluation.BlobRef) -> bytes:
        """Returns what a reference stands for.

        Raises:
            NotFound: It is not stored.
        """
        held = opened(ref)
        return self.get(ref.sha256) if held is None else held

    def get(self, sha256: str) -> bytes:
        """Returns a body.

        Raises:
            NotFound: There is none under that hash.
        """
        found = persistently(lambda: self._get(sha256))
        if found is None:
            raise errors.NotFound(f"There is no blob {sha256}.")
        return Body(*found).open()

    def _get(self, sha256: str) -> Sequence[Any] | None:
        with self._database.reading() as connection:
            return connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()


def inline(body: bytes) -> evaluation.BlobRef | None:
    """Returns a reference that holds a short text whole; None for what is long, or is no text."""
    if len(body) > INLINE_BYTES:
        return None
    try:
        return evaluation.BlobRef(hashlib.sha256(body).hexdigest(), len(body), body.decode())
    except UnicodeDecodeError:
        return None


def opened(ref: evaluation.BlobRef) -> bytes | None:
    """Returns the body that a reference holds whole, or None."""
    held = ref.head.encode("utf-8", "surrogatepass")
    return held if len(held) == ref.size and hashlib.sha256(held).hexdigest() == ref.sha256 else None


def keep(connection: Connection, bodies: Iterable[Body]) -> None:
    """Stores bodies inside a transaction that somebody else began."""
    rows = [
        {"sha256": each.sha256, "size": each.size, "is_compressed": each.is_compressed, "body": each.stored}
        for each in sorted(bodies)  # in one order for all, so that no two writers wait for each other
    ]
    if rows:
        connection.execute(_INSERTS[connection.dialect.name], rows)
