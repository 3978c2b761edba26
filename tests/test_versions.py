"""A version says what, why and who."""

import pytest

from atoll import errors, versions


def test_a_version_is_named_by_its_key_and_its_number() -> None:
    assert versions.Version("mind/weights", 3, "{}", "because", "ada").id == "mind/weights@3"


@pytest.mark.parametrize("empty", ["", " \n"])
@pytest.mark.parametrize("name", ["key", "reason", "author"])
def test_a_change_without_key_reason_or_author_is_refused_in_a_sentence(name: str, empty: str) -> None:
    said = {"key": "k", "reason": "because", "author": "ada", name: empty}
    with pytest.raises(errors.SetupError) as refused:
        versions.validate_change(**said)
    assert str(refused.value) == f"The {name} of this change is empty: give a key, a reason and an author."


def test_a_change_that_says_all_three_passes() -> None:
    versions.validate_change("k", "because", "ada")
