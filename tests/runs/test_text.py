"""Foreign text is made fit to look at."""

import tomllib

import hypothesis
import pytest
from hypothesis import strategies

from atoll.runs import text_format
from tests.runs import samples


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain\ttext\nover lines\r\n", "plain\ttext\nover lines\r\n"),
        ("größer ≥ 日本語 🙂", "größer ≥ 日本語 🙂"),
        ("\x1b[31m\x07\x00", "\\x1b[31m\\x07\\x00"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202eturned\ud800", "\\u202eturned\\ud800"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(given, shown):
    assert text_format.escape_control(given) == shown


@hypothesis.given(strategies.text(strategies.characters(codec=None)))
def test_any_text_can_be_written_afterwards(given):
    assert "\x1b" not in text_format.escape_control(given)
    text_format.escape_control(given).encode()


def test_a_gist_is_one_line_of_limited_length():
    assert text_format.format_one_line("def f(x):\n    return x\n") == "def f(x): return x"
    for given in samples.HOSTILE:
        assert len(text_format.format_one_line(given, 40)) <= 40
        assert "\n" not in text_format.format_one_line(given, 40)
    assert text_format.format_one_line("a" * 1000, 10) == "aaaaaaaaa…"


def test_what_is_new_is_told_without_what_was_there():
    old, new = "def f(x):\n    return x\n", "def f(x):\n    y = x\n    return x * y\n"
    assert text_format.find_new_lines(new, old) == "y = x; return x * y"
    assert text_format.find_new_lines(old, old) == "def f(x): return x"


def test_settings_read_back_as_toml_without_what_is_not_set():
    config = samples.plan(note="two\nlines")
    read = tomllib.loads("\n".join(text_format.format_settings(config)))
    assert read["note"] == "two\nlines"
    assert read["files"] == {"task.py": "0123456789abcdef"}
    assert read["task"] == {"file": "task.py"}


def test_a_patch_has_names_and_a_place():
    lines = list(text_format.iter_diff_lines("a\nb\n", "a\nc", "old", "new"))
    assert lines == ["--- old", "+++ new", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert not list(text_format.iter_diff_lines("same", "same\n", "old", "new"))
