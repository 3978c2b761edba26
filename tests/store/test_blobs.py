"""Blobs."""

import hashlib
import os

import pytest

from atoll import errors

BODIES = {"text": b"the same line\n" * 1000, "noise": os.urandom(5000), "empty": b"", "short": b"x"}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_blob_round_trips(any_store, body):
    ref = any_store.blobs().put(body)
    assert (ref.sha256, ref.size) == (hashlib.sha256(body).hexdigest(), len(body))
    assert any_store.blobs().get(ref.sha256) == body


def test_reference_has_the_beginning_of_the_blob(any_store):
    assert any_store.blobs().put(b"Begin here. " + b"x" * 500).head.startswith("Begin here. xxx")
    assert len(any_store.blobs().put("ü".encode() * 500).head) < 100


def test_blobs_are_deduplicated_and_compressed(opened):
    for body in (BODIES["text"], BODIES["noise"], BODIES["text"]):
        opened.blobs().put(body)
    with opened.database.begin_read() as connection:
        sizes = connection.exec_driver_sql("SELECT size, length(body) FROM blobs ORDER BY size").all()
    assert sizes[0] == (5000, 5000)
    assert sizes[1][1] < 200
    assert len(sizes) == 2


def test_missing_blob_is_not_found(any_store):
    with pytest.raises(errors.NotFound, match="Blob 123 not found"):
        any_store.blobs().get("123")
