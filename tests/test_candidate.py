"""Candidates: content hash, plain data and defaults."""

import hashlib

import pytest

from atoll import candidate


def test_content_hash_is_sha_256_of_utf_8() -> None:
    assert candidate.content_hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert candidate.content_hash("ä") == "33e6d73fee82904c8d7afb78de1154d1e8dc2a0edb08120e63df5b9385c2d9cc"


def test_content_hash_accepts_lone_surrogates() -> None:
    assert candidate.content_hash("\ud800") == hashlib.sha256(b"\xed\xa0\x80").hexdigest()


def test_clean_text_replaces_what_no_store_accepts() -> None:
    assert candidate.clean_text("a\0b\ud800c\udfff") == "a\ufffdb\ufffdc\ufffd"
    assert candidate.clean_text("\N{GRINNING FACE} \ue000") == "\N{GRINNING FACE} \ue000"


def test_plain_data_matches_journal_round_trip() -> None:
    assert candidate.normalize_json({"pair": (1, 2), "deep": {"x": None}}) == {"pair": [1, 2], "deep": {"x": None}}


def test_empty_data_is_shared_constant() -> None:
    assert candidate.normalize_json({}) is candidate.EMPTY


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_plain_data_rejects_infinite_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        candidate.normalize_json({"x": value})


def test_plain_data_rejects_objects() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        candidate.normalize_json({"x": object()})  # type: ignore[dict-item]


def test_candidate_defaults() -> None:
    created = candidate.Candidate("0.0", "x")
    assert (created.parents, created.island, created.iteration, created.meta) == ((), 0, 0, {})
