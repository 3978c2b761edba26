"""Secrets go, code stays (P10)."""

import time

import pytest

from atoll import secret_scanner
from atoll.secret_scanner import HIDDEN, redact


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
    assert redact(f"it said {secret} and went on") == f"it said {HIDDEN} and went on"


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
    assert redact(said) == shown


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
    assert redact(code) == code


def test_control_sequences_of_a_terminal_go():
    assert redact("\x1b[31mred\x1b[0m alert") == "red alert"


@pytest.mark.parametrize(
    "unit", ["-----BEGIN PRIVATE KEY-----", "password=", "a-", "sk-", "eyJ.", "A1", "key key=", "\x1b["]
)
def test_a_hostile_text_takes_little_time(unit):
    since = time.process_time()
    redact(unit * (20_000 // len(unit)))
    assert time.process_time() - since < 1.0


# Put together here, so that no line of this file looks like a key to a scanner.
A40 = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hI5kL7n"
PLANTED = {
    "AWS id": "AWS_ACCESS_KEY_ID=" + "AKIA" + "IOSFODNN7EXAMPLE",
    "OpenAI project key": "client = OpenAI('" + "sk-proj-" + A40 + "')",
    "OpenAI bearer": "curl -H 'Authorization: Bearer " + "sk-" + A40 + "' https://api.openai.com",
    "Anthropic": "export K=" + "sk-ant-api03-" + A40,
    "GitHub classic": "git clone with " + "ghp_" + A40[:36],
    "GitHub fine-grained": "git clone https://" + "github_pat_" + A40 + "@github.com/a/b",
    "Hugging Face": "login(" + "hf_" + A40[:34] + ")",
    "Google": "key: " + "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "Slack bot": "xoxb" + "-123456789012-abcdefABCDEF",
    "PEM": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "postgres": "postgres" + "ql://admin:hunter2secret@db.internal:5432/prod",
    "JWT": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "configure": "genai.configure(api_key='" + A40[:24] + "')",
}
HARMLESS = [
    "curl https://user:$TOKEN@example.org/api",
    "git rev-parse HEAD",
    "checkout 9fceb02d0ae598e95dc970b74767f19372d61af8",
    'for token in tokens: print("token", token)',
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "psql password=$PGPASSWORD",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "image@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
]


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_key_is_found_in_its_line(text: str) -> None:
    found = secret_scanner.find_secrets(f"first line\n{text}\nlast line", {})
    assert [each.line for each in found][:1] == [2]
    assert A40 not in repr(found)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_similar_is_none(text: str) -> None:
    assert secret_scanner.find_secrets(text, {}) == []


def test_the_value_of_a_variable_that_is_called_a_secret_is_found() -> None:
    own = {"MY_TOKEN": "correct horse battery", "HOME": "/var/somebody", "SHORT_KEY": "abc"}
    said = "echo correct horse battery > /var/somebody/abc"
    assert secret_scanner.find_secrets(said, own) == [secret_scanner.SecretMatch("value of the variable MY_TOKEN", 1)]


def test_twenty_thousand_lines_take_less_than_a_second_of_cpu() -> None:
    text = "\n".join(
        f"result_{n} = compute(alpha={n}, path='/usr/share/data/{n}.csv')  # step {n}" for n in range(5000)
    )
    since = time.process_time()
    assert secret_scanner.find_secrets(text, {}) == []
    assert time.process_time() - since < 0.25
