"""Foreign text is made fit to look at."""

import tomllib

import hypothesis
import pytest
from hypothesis import strategies

from atoll.runs import text_format
from tests.runs import samples


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nover lines\r\n", "plain\ttext\nover lines\r\n"),
        ("größer ≥ 日本語 🙂", "größer ≥ 日本語 🙂"),
        ("\x1b[31m\x07\x00", "\\x1b[31m\\x07\\x00"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202eturned\ud800", "\\u202eturned\\ud800"),
    ],
)
def test_escape_control_replaces_invisible_characters(text, shown):
    assert text_format.escape_control(text) == shown


@hypothesis.given(strategies.text(strategies.characters(codec=None)))
def test_escape_control_makes_any_text_encodable(text):
    assert "\x1b" not in text_format.escape_control(text)
    text_format.escape_control(text).encode()


def test_format_one_line_limits_length():
    assert text_format.format_one_line("def f(x):\n    return x\n") == "def f(x): return x"
    for text in samples.HOSTILE:
        assert len(text_format.format_one_line(text, 40)) <= 40
        assert "\n" not in text_format.format_one_line(text, 40)
    assert text_format.format_one_line("a" * 1000, 10) == "aaaaaaaaa…"


def test_find_new_lines_omits_old_lines():
    old, new = "def f(x):\n    return x\n", "def f(x):\n    y = x\n    return x * y\n"
    assert text_format.find_new_lines(new, old) == "y = x; return x * y"
    assert text_format.find_new_lines(old, old) == "def f(x): return x"


def test_format_settings_is_toml_without_unset_keys():
    config = samples.plan(note="two\nlines")
    read = tomllib.loads("\n".join(text_format.format_settings(config)))
    assert read["note"] == "two\nlines"
    assert read["files"] == {"task.py": "0123456789abcdef"}
    assert read["task"] == {"file": "task.py"}


def test_diff_has_names_and_position():
    lines = list(text_format.iter_diff_lines("a\nb\n", "a\nc", "old", "new"))
    assert lines == ["--- old", "+++ new", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert not list(text_format.iter_diff_lines("same", "same\n", "old", "new"))
