"""Secret scanner: hides secrets and keeps code (P10)."""

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
def test_redact_hides_secret_patterns(secret):
    assert redact(f"it said {secret} and continued") == f"it said {HIDDEN} and continued"


@pytest.mark.parametrize(
    ("message", "displayed"),
    [
        ("password=hunter22", "password=[hidden]"),
        ("API_KEY: 'abcd1234'", "API_KEY: '[hidden]'"),
        ('{"access_token": "abc-def-1"}', '{"access_token": "[hidden]"}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [hidden]"),
    ],
)
def test_redact_hides_values_named_as_secrets(message, displayed):
    assert redact(message) == displayed


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
def test_redact_keeps_code_and_numbers(code):
    assert redact(code) == code


def test_redact_removes_terminal_control_sequences():
    assert redact("\x1b[31mred\x1b[0m alert") == "red alert"


@pytest.mark.parametrize(
    "unit", ["-----BEGIN PRIVATE KEY-----", "password=", "a-", "sk-", "eyJ.", "A1", "key key=", "\x1b["]
)
def test_redact_is_fast_on_hostile_text(unit):
    since = time.process_time()
    redact(unit * (20_000 // len(unit)))
    assert time.process_time() - since < 1.0


# Concatenated, so that scanners find no key in this file.
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
def test_find_secrets_finds_planted_key(text: str) -> None:
    result = secret_scanner.find_secrets(f"first line\n{text}\nlast line", {})
    assert [item.line for item in result][:1] == [2]
    assert A40 not in repr(result)


@pytest.mark.parametrize("text", HARMLESS)
def test_find_secrets_ignores_similar_text(text: str) -> None:
    assert secret_scanner.find_secrets(text, {}) == []


def test_find_secrets_finds_value_of_secret_variable() -> None:
    own = {"MY_TOKEN": "correct horse battery", "HOME": "/var/secret-name", "SHORT_KEY": "abc"}
    message = "echo correct horse battery > /var/secret-name/abc"
    assert secret_scanner.find_secrets(message, own) == [
        secret_scanner.SecretMatch("value of the variable MY_TOKEN", 1)
    ]


def test_find_secrets_scans_20000_lines_in_one_cpu_second() -> None:
    text = "\n".join(
        f"result_{n} = compute(alpha={n}, path='/usr/share/data/{n}.csv')  # step {n}" for n in range(5000)
    )
    since = time.process_time()
    assert secret_scanner.find_secrets(text, {}) == []
    assert time.process_time() - since < 0.25
