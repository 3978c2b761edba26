"""Blobs: bodies by hash."""

import hashlib
import os

import pytest

from atoll import errors

BODIES = {"text": b"the same line\n" * 1000, "noise": os.urandom(5000), "empty": b"", "short": b"x"}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_body_comes_back_by_its_hash(either, body):
    ref = either.blobs().put(body)
    assert (ref.sha256, ref.size) == (hashlib.sha256(body).hexdigest(), len(body))
    assert either.blobs().get(ref.sha256) == body


def test_the_reference_says_how_the_body_begins(either):
    assert either.blobs().put(b"Begin here. " + b"x" * 500).head.startswith("Begin here. xxx")
    assert len(either.blobs().put("ü".encode() * 500).head) < 100


def test_the_same_body_is_stored_once_and_compressed_if_that_helps(opened):
    for body in (BODIES["text"], BODIES["noise"], BODIES["text"]):
        opened.blobs().put(body)
    with opened.database.begin_read() as connection:
        sizes = connection.exec_driver_sql("SELECT size, length(body) FROM blobs ORDER BY size").all()
    assert sizes[0] == (5000, 5000)
    assert sizes[1][1] < 200
    assert len(sizes) == 2


def test_a_body_that_is_not_there_is_not_found(either):
    with pytest.raises(errors.NotFound, match="no blob 123"):
        either.blobs().get("123")
