"""Tunables in sources."""

import pytest

from atoll import errors
from atoll.mutation import tunable
from atoll.mutation.tuner import find_tunables
from atoll.mutation.tuner.tunables import find_literals

SOURCE = """\
from atoll.mutation import tunable


def rate(x):
    decay = 0.5  # tunable: 0..1
    size: int = 3  # tunable: 1..10
    mode = "best"  # tunable: "best", "first"
    return decay * x + size * tunable(-2.0, -4, 4)
"""


def test_it_is_inert():
    assert tunable(0.5, 0, 1) == 0.5
    assert tunable("a", ["a", "b"]) == "a"


def test_calls_and_comments_are_found_in_the_order_of_the_source():
    found = find_tunables(SOURCE)
    shown = [(each.name, each.start, each.low, each.high, each.is_integer, each.choices) for each in found.tunables]
    assert shown == [
        ("decay", 0.5, 0, 1, False, ()),
        ("size", 3, 1, 10, True, ()),
        ("mode", "best", 0, 1, False, ("best", "first")),
        ("in line 8", -2.0, -4, 4, False, ()),
    ]


def test_new_values_are_written_and_stay_tunable():
    text = find_tunables(SOURCE).write_point((0.25, 7, "first", 1.5))
    assert "decay = 0.25  # tunable: 0..1" in text
    assert "size: int = 7  # tunable: 1..10" in text
    assert 'mode = \'first\'  # tunable: "best", "first"' in text
    assert "tunable(1.5, -4, 4)" in text
    assert [each.start for each in find_tunables(text).tunables] == [0.25, 7, "first", 1.5]


def test_what_does_not_change_stays_as_it_is_spelled():
    assert find_tunables(SOURCE).write_point((0.5, 3, "best", -2.0)) == SOURCE


def test_a_source_without_any_has_none():
    assert find_tunables("x = 1\n").tunables == ()
    assert find_tunables('x = "# tunable: 0..1"\n').tunables == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("decay = 0.5  # tunable: 1..0", "Tunable decay has its bounds reversed, 1 to 0"),
        ("decay = tunable(0.5, 1, 0)", "Tunable decay has its bounds reversed, 1 to 0"),
        ("decay = 0.5  # tunable: often", "Tunable decay says 'often': write LOW..HIGH"),
        ("decay = tunable(0.5)", "Tunable decay has no bounds"),
        ("decay = tunable(x, 0, 1)", "Tunable decay says x"),
        ("# tunable: 0..1", "Line 1 declares a tunable but assigns nothing"),
    ],
)
def test_a_bad_declaration_is_named_in_one_sentence(line, message):
    with pytest.raises(errors.SetupError, match=message):
        find_tunables(f"{line}\n")


def test_numbers_are_found_on_request_but_no_indices():
    found = find_literals("def f(el, x):\n    return el[1] * 2.5 + x ** 2 - -3\n")
    assert [each.start for each in found.tunables] == [2.5, 2.0, -3.0]
    assert found.write_point((2.5, 1.5, 4.0)) == "def f(el, x):\n    return el[1] * 2.5 + x ** 1.5 - 4.0\n"


def test_a_text_that_is_no_python_has_none():
    with pytest.raises(ValueError, match="no Python"):
        find_tunables("SELECT 1;")


def test_numbers_that_functions_take_by_default_are_found_between_the_markers():
    source = (
        "# EVOLVE-BLOCK-START\ndef f(x, steps=100, rate=0.5, *, is_on=True, order=1, size=8):\n    return x * 3.0\n"
        "# EVOLVE-BLOCK-END\ndef g(y=7):\n    return y\n"
    )
    found = find_literals(source)
    assert [(each.start, each.is_integer) for each in found.tunables] == [
        (100, True),
        (0.5, False),
        (8, True),
        (3.0, False),
    ]
    assert (found.tunables[0].low, found.tunables[0].high) == (1, 400)
    assert "steps=250, rate=0.5," in found.write_point((250, 0.5, 8, 3.0))
