"""Versions: names and required fields of a change."""

import pytest

from atoll import errors, versions


def test_version_name_has_key_and_number() -> None:
    assert versions.Version("mind/weights", 3, "{}", "because", "ada").id == "mind/weights@3"


@pytest.mark.parametrize("empty", ["", " \n"])
@pytest.mark.parametrize("name", ["key", "reason", "author"])
def test_change_without_key_reason_or_author_is_rejected(name: str, empty: str) -> None:
    message = {"key": "k", "reason": "because", "author": "ada", name: empty}
    with pytest.raises(errors.SetupError) as refused:
        versions.validate_change(**message)
    assert str(refused.value) == f"The {name} of this change is empty: give a key, a reason and an author."


def test_complete_change_is_accepted() -> None:
    versions.validate_change("k", "because", "ada")
