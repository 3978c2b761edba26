"""Finds and removes secrets in texts: keys, tokens, passwords in URLs.

`find_secrets` is for gates that refuse a text, so it must be sure: commit hashes and image digests are not secrets.
`redact` is for prompts; it also removes long opaque strings. `hide_keys` is for texts that are stored.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

HIDDEN = "[hidden]"
_MIN_LENGTH = 8  # characters of the shortest secret
_MAX_KEY_LENGTH = 8000  # characters between the BEGIN and END lines of a private key

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
# Every repeat is possessive or bounded, so no text causes backtracking.
# The name of a call matches too, without a group, so that it is not scanned again.
# One letter comes first: scanning for a set of letters is much faster than for words in any case.
_NAMED_VALUE = re.compile(
    r"""(?x) ([pPsStTaA](?: (?<=[pP])(?i:assword|asswd|wd\b) | (?<=[sS])(?i:ecret) | (?<=[tT])(?i:oken)
    | (?<=[aA])(?i:pi[_-]?key|ccess[_-]?key|uthorization) ))
    (["']?\s{0,4}[:=]\s{0,4}) (?: ((?i:bearer\s|basic\s)?["']?) ([^\s"',;()}\]]{4,}+)(?!\()
    | [^\s"',;()}\]]{4,}+ )"""
)
# A JSON web token starts at the last possible position of a word; otherwise the scan would be quadratic.
_KNOWN_FORMATS = re.compile(
    r"""(?x) (?=[sgxAhyer]) \b(?: (?P<OpenAI_or_Anthropic_key>sk-[A-Za-z0-9_-]{16,}+)
    | (?P<GitHub_token>gh[opsur]_[A-Za-z0-9]{20,}+ | github_pat_\w{20,}+)
    | (?P<GitLab_token>glpat-[\w-]{16,}+) | (?P<Stripe_key>[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+)
    | (?P<Slack_token>xox[abeprs]-[\w-]{10,}+)
    | (?P<AWS_key_id>A(?:KIA|SIA)[A-Z0-9]{12,}+) | (?P<Google_key>AIza[\w-]{30,}+ | ya29\.[\w-]{20,}+)
    | (?P<Hugging_Face_token>hf_[A-Za-z0-9]{20,}+)
    | (?P<JSON_web_token>eyJ(?=[\w-]{10})(?:\w++|-(?!eyJ[\w-]{10}))*+\.[\w-]{10,}+(?:\.[\w-]{5,}+)?) )"""
)
_KEY_BEGIN, _KEY_END = (re.compile(rf"-----{word} [A-Z ]{{0,30}}PRIVATE KEY-----") for word in ("BEGIN", "END"))
_URL_PASSWORD = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@\"']{0,64}:(?P<password>[^\s/@\"']{3,200}+)@")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")  # would hide a key from the patterns
_OPAQUE = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}")
# $NAME, ${NAME}, {{name}}, %NAME%, <name>: placeholders, not secrets.
_PLACEHOLDER = re.compile(r"""[$%<{]|os\.|env|None\b|null\b|x{4}|\*{3}|\.\.\.""")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|credential")  # in names of environment variables


class SecretMatch(NamedTuple):
    """Position of a possible secret; its text is not repeated.

    Attributes:
        kind: Kind of secret.
        line: Line number, from 1.
    """

    kind: str
    line: int


def find_secrets(text: str, environment: Mapping[str, str] | None = None) -> list[SecretMatch]:
    """Returns possible secrets in the order of the text, one per line and kind.

    Args:
        text: A script, a command, a skill, a value or a reason.
        environment: Values of its secret variables are searched too; None: this process's environment.
    """
    if len(text) < _MIN_LENGTH:
        return []
    variables = os.environ if environment is None else environment
    text = _INVISIBLE.sub("", text)
    starts = sorted({*_find_in_text(text), *_find_environment_values(variables, text)})
    return list(dict.fromkeys(_iter_matches(text, starts)))


def _iter_matches(text: str, starts: Iterable[tuple[int, str]]) -> Iterator[SecretMatch]:
    """Yields matches with their lines; `starts` must be sorted."""
    line, position = 1, 0
    for start, kind in starts:
        line, position = line + text.count("\n", position, start), start
        yield SecretMatch(kind, line)


def _find_in_text(text: str) -> Iterator[tuple[int, str]]:
    yield from ((start, "private key") for start, _ in _find_private_keys(text))
    yield from (
        (match.start(), (match.lastgroup or "key").replace("_", " ")) for match in _KNOWN_FORMATS.finditer(text)
    )
    yield from (
        (match.start(), "password in an address")
        for match in _URL_PASSWORD.finditer(text)
        if not _PLACEHOLDER.match(match["password"])
    )
    for match in _NAMED_VALUE.finditer(text):
        if (value := match[4]) is None:  # the name of a call
            continue
        # An identifier is not a secret; a literal or a long opaque string is.
        is_literal = match[3].endswith(('"', "'")) or any(char.isdigit() for char in value)
        if len(value) >= _MIN_LENGTH and is_literal and not _PLACEHOLDER.match(value):
            yield match.start(), f"value of {match[1].lower()}"


def _find_private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of private keys; the end of the text ends one too."""
    position, end = 0, (0, 0)
    while begin_match := _KEY_BEGIN.search(text, position):
        if end[0] < begin_match.end():  # otherwise the END already known is still the next one
            end_match = _KEY_END.search(text, begin_match.end())
            end = end_match.span() if end_match else (len(text), len(text))
        is_key = end[0] - begin_match.end() <= _MAX_KEY_LENGTH
        if is_key:
            yield begin_match.start(), end[1]
        position = end[1] if is_key else begin_match.start() + 1


def _remove_private_keys(text: str) -> str:
    parts, position = list[str](), 0
    for start, end in _find_private_keys(text):
        parts += [text[position:start], HIDDEN]
        position = end
    return "".join([*parts, text[position:]])


def _find_environment_values(environment: Mapping[str, str], text: str) -> Iterator[tuple[int, str]]:
    for name, value in find_secret_variables(environment).items():
        if (start := text.find(value)) >= 0:
            yield start, f"value of the variable {name}"


def redact(text: str) -> str:
    """Returns a text without terminal control sequences and possible secrets.

    A long string is opaque if it mixes letters and digits more than names, paths and numbers do.
    """
    text = _ESCAPES.sub("", text)
    if len(text) < _MIN_LENGTH:
        return text
    text = _remove_private_keys(text)
    text = _KNOWN_FORMATS.sub(HIDDEN, text)
    text = _NAMED_VALUE.sub(lambda match: f"{match[1]}{match[2]}{match[3]}{HIDDEN}" if match[4] else match[0], text)
    return _OPAQUE.sub(lambda match: HIDDEN if _is_opaque(match[0]) else match[0], text)


def find_secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables whose names look like those of secrets."""
    is_secret = _SECRET_NAME.search
    return {name: value for name, value in environment.items() if len(value) >= _MIN_LENGTH and is_secret(name)}


def hide_keys(text: str, secrets: Mapping[str, str]) -> str:
    """Returns a text without keys of known formats and values of secret variables; for texts that are stored.

    Unlike `redact`, it keeps long opaque strings, which may be results.

    Args:
        text: The text.
        secrets: Result of `find_secret_variables`.
    """
    if len(text) < _MIN_LENGTH:
        return text
    for value in secrets.values():
        text = text.replace(value, HIDDEN)
    text = _KNOWN_FORMATS.sub(HIDDEN, _remove_private_keys(text))
    return _URL_PASSWORD.sub(lambda match: match[0].replace(match["password"], HIDDEN), text)


def _is_opaque(word: str) -> bool:
    """Returns whether a long word looks random: its character kinds change often."""
    kinds = ["d" if char.isdigit() else "u" if char.isupper() else "l" if char.islower() else "" for char in word]
    if "/" in word and all(len(part) < 24 for part in word.split("/")):
        return False  # a path
    letters = {"l", "u"} & set(kinds)
    changes = sum(left != right for left, right in itertools.pairwise(kinds) if left and right)
    return bool(letters) and "d" in kinds and changes >= len(word) // 6
