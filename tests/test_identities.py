"""normalize_name: names that look alike are equal."""

import pytest

from atoll import errors, identities


@pytest.mark.parametrize(
    "other",
    [
        "AGENT",
        "  agent\u2003",
        "ag\u200bent",
        "\uff41gent",
        "agent\u00ad",
        "agent\u2060",
        "agent\ufe0f",
        "agent\U000e0101",
        "a\u0301gent",
        "\u00e1gent",
        "agent\u034f",
        "agent\u3164",
        "\u2800agent",
        "\U0001d41agent",
        "\u0251gent",
        "a\u0261ent",
        "\u1d00\u0262\u1d07\u0274\u1d1b",
        "agen\u0167",
        "agent.",
        "Agent ...",
        "agent\u3002",
    ],
)
def test_similar_names_are_equal(other):
    assert identities.normalize_name(other) == identities.normalize_name("agent")


def test_name_in_other_alphabet_equals_lookalike():
    assert identities.normalize_name("\u0412\u041e\u0412") == identities.normalize_name("BOB")


@pytest.mark.parametrize("other", ["\u0131lija", "\u0269lija", "\u026alija", "i\u0142ija", "i\u01c0ija", "ili\u0237a"])
def test_latin_letters_with_stroke_equal_plain_letters(other):
    assert identities.normalize_name(other) == identities.normalize_name("Ilija")


def test_punctuation_inside_name_counts():
    assert identities.normalize_name("O'Neil") != identities.normalize_name("ONeil")
    assert identities.normalize_name("...") == "..."


def test_composed_and_decomposed_names_are_equal():
    assert identities.normalize_name("Ren\u00e9  Roy") == identities.normalize_name("rene\u0301 roy")


def test_distinct_names_differ():
    names = ["Ann", "Anne", "Ann B", "\u0410\u043d\u043d\u0430", "\u0930\u0935\u093f", "\u0930\u0935\u0941", "\u738b"]
    assert len({identities.normalize_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " \t",
        "\u200b",
        "\u3164\ufe0f",
        "Ann\nApproved-by: Bob",
        "Ann\u2028Bob",
        "Ann\x85Bob",
        "Ann\x1b[2K",
        "\ud800",
        "\u0410toll",
        "At\u03bfll",
        "x" * 201,
    ],
)
def test_invalid_name_is_rejected(name):
    with pytest.raises(errors.SetupError, match="name"):
        identities.normalize_name(name)
