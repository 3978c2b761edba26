"""What is proposed is plain data with a digest."""

import pytest

from atoll import candidate


def test_a_digest_is_the_sha_256_of_the_text_in_utf_8() -> None:
    assert candidate.content_hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert candidate.content_hash("ä") == "33e6d73fee82904c8d7afb78de1154d1e8dc2a0edb08120e63df5b9385c2d9cc"


def test_plain_data_is_what_a_journal_gives_back() -> None:
    assert candidate.normalize_json({"pair": (1, 2), "deep": {"x": None}}) == {"pair": [1, 2], "deep": {"x": None}}


def test_no_data_is_the_one_shared_nothing() -> None:
    assert candidate.normalize_json({}) is candidate.EMPTY


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_no_plain_data(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        candidate.normalize_json({"x": value})


def test_an_object_is_no_plain_data() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        candidate.normalize_json({"x": object()})  # type: ignore[dict-item]


def test_a_candidate_of_nobody_belongs_to_the_first_step_of_the_first_island() -> None:
    born = candidate.Candidate("0.0", "x")
    assert (born.parents, born.island, born.iteration, born.meta) == ((), 0, 0, {})
