"""Secrets go, code stays (P10)."""

import time

import pytest

from atoll.programs.prompt import redacted
from atoll.programs.prompt.redaction import HIDDEN


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF1234567890abcd",
        "ghp_abcdefghijklmnopqrstuvwx1234",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghijkl",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkw.SflKxwRJSMeKKF2QT4",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3A0NTY3ODkw",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_hidden(secret):
    assert redacted(f"it said {secret} and went on") == f"it said {HIDDEN} and went on"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("password=hunter22", "password=[hidden]"),
        ("API_KEY: 'abcd1234'", "API_KEY: '[hidden]'"),
        ('{"access_token": "abc-def-1"}', '{"access_token": "[hidden]"}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [hidden]"),
    ],
)
def test_what_is_called_a_secret_is_hidden(said, shown):
    assert redacted(said) == shown


@pytest.mark.parametrize(
    "code",
    [
        "token = next(tokens)",
        "a_very_long_function_name_that_goes_on_and_on(argument)",
        "AVeryLongClassNameThatGoesOnAndOnAndOnForever",
        "src/atoll/programs/prompt/redaction/and/more/of/it.py",
        "3.14159265358979323846264338327950288419716939937510",
        "12345678901234567890123456789012345678901234567890",
        "=" * 80,
        "-" * 80,
        "x1 = numpy.linalg.norm(matrix_a @ matrix_b2 - matrix_c3)",
    ],
)
def test_code_and_numbers_stay(code):
    assert redacted(code) == code


def test_control_sequences_of_a_terminal_go():
    assert redacted("\x1b[31mred\x1b[0m alert") == "red alert"


@pytest.mark.parametrize(
    "unit", ["-----BEGIN PRIVATE KEY-----", "password=", "a-", "sk-", "eyJ.", "A1", "key key=", "\x1b["]
)
def test_a_hostile_text_takes_little_time(unit):
    since = time.process_time()
    redacted(unit * (20_000 // len(unit)))
    assert time.process_time() - since < 1.0
