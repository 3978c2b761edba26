"""Tunables in a source."""

import pytest

from atoll import errors
from atoll.mutation import tunable
from atoll.mutation.tuner import find_tunables
from atoll.mutation.tuner.engine import find_literals

SOURCE = """\
from atoll.mutation import tunable


def rate(x):
    decay = 0.5  # tunable: 0..1
    size: int = 3  # tunable: 1..10
    mode = "best"  # tunable: "best", "first"
    return decay * x + size * tunable(-2.0, -4, 4)
"""


def test_tunable_returns_its_value():
    assert tunable(0.5, 0, 1) == 0.5
    assert tunable("a", ["a", "b"]) == "a"


def test_find_tunables_in_calls_and_comments():
    declared = find_tunables(SOURCE)
    assert [
        (item.name, item.start, item.low, item.high, item.is_integer, item.choices) for item in declared.tunables
    ] == [
        ("decay", 0.5, 0, 1, False, ()),
        ("size", 3, 1, 10, True, ()),
        ("mode", "best", 0, 1, False, ("best", "first")),
        ("in line 8", -2.0, -4, 4, False, ()),
    ]


def test_written_values_stay_tunable():
    text = find_tunables(SOURCE).write_point((0.25, 7, "first", 1.5))
    assert "decay = 0.25  # tunable: 0..1" in text
    assert "size: int = 7  # tunable: 1..10" in text
    assert 'mode = \'first\'  # tunable: "best", "first"' in text
    assert "tunable(1.5, -4, 4)" in text
    assert [item.start for item in find_tunables(text).tunables] == [0.25, 7, "first", 1.5]


def test_unchanged_values_keep_their_text():
    assert find_tunables(SOURCE).write_point((0.5, 3, "best", -2.0)) == SOURCE


def test_source_without_tunables():
    assert find_tunables("x = 1\n").tunables == ()
    assert find_tunables('x = "# tunable: 0..1"\n').tunables == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("decay = 0.5  # tunable: 1..0", "Tunable decay has reversed bounds, 1 to 0"),
        ("decay = tunable(0.5, 1, 0)", "Tunable decay has reversed bounds, 1 to 0"),
        ("decay = 0.5  # tunable: often", "Tunable decay has the bounds 'often'. Write LOW..HIGH"),
        ("decay = tunable(0.5)", "Tunable decay has no bounds"),
        ("decay = tunable(x, 0, 1)", "Tunable decay has the value x"),
        ("# tunable: 0..1", "Line 1 declares a tunable without assignment"),
    ],
)
def test_invalid_declaration_is_rejected(line, message):
    with pytest.raises(errors.SetupError, match=message):
        find_tunables(f"{line}\n")


def test_find_literals_skips_indices():
    literals = find_literals("def f(el, x):\n    return el[1] * 2.5 + x ** 2 - -3\n")
    assert [item.start for item in literals.tunables] == [2.5, 2.0, -3.0]
    assert literals.write_point((2.5, 1.5, 4.0)) == "def f(el, x):\n    return el[1] * 2.5 + x ** 1.5 - 4.0\n"


def test_invalid_python_has_no_tunables():
    with pytest.raises(ValueError, match="not valid Python"):
        find_tunables("SELECT 1;")


def test_find_literals_finds_default_arguments_between_markers():
    source = (
        "# EVOLVE-BLOCK-START\ndef f(x, width=100, rate=0.5, *, is_on=True, order=1, size=8):\n    return x * 3.0\n"
        "# EVOLVE-BLOCK-END\ndef g(y=7):\n    return y\n"
    )
    literals = find_literals(source)
    assert [(item.start, item.is_integer) for item in literals.tunables] == [
        (100, True),
        (0.5, False),
        (8, True),
        (3.0, False),
    ]
    assert (literals.tunables[0].low, literals.tunables[0].high) == (1, 400)
    assert "width=250, rate=0.5," in literals.write_point((250, 0.5, 8, 3.0))
