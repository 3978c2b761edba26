"""Finds what looks like a secret in a text, and takes it out: keys, tokens, passwords in addresses; code stays.

Two strengths. `find` is for a gate: what it names is refused, so it must be sure, and a commit's hash or an image's
digest is no secret. `redacted` is for text on its way to a model: there a long opaque string goes too.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

HIDDEN = "[hidden]"
_MIN_LENGTH = 8  # characters: no secret is shorter
_MAX_KEY_LENGTH = 8000  # characters between the lines of dashes of a private key

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
# Every repeat is possessive or bounded: no text makes them go back and forth.
# The name of a call is taken too, without a group, so that it is not read again from each name in it.
# One letter first: a scan for a set of letters is many times faster than one for words in any case.
_NAMED_VALUE = re.compile(
    r"""(?x) ([pPsStTaA](?: (?<=[pP])(?i:assword|asswd|wd\b) | (?<=[sS])(?i:ecret) | (?<=[tT])(?i:oken)
    | (?<=[aA])(?i:pi[_-]?key|ccess[_-]?key|uthorization) ))
    (["']?\s{0,4}[:=]\s{0,4}) (?: ((?i:bearer\s|basic\s)?["']?) ([^\s"',;()}\]]{4,}+)(?!\()
    | [^\s"',;()}\]]{4,}+ )"""
)
# A token of JSON begins at the last place of a word where one can: else a word with many is read to its end from each.
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
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")  # they would hide a key from a pattern
_OPAQUE = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}")
# $NAME, ${NAME}, {{name}}, %NAME%, <name>: a place where a secret will stand, and none.
_PLACEHOLDER = re.compile(r"""[$%<{]|os\.|env|None\b|null\b|x{4}|\*{3}|\.\.\.""")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|credential")  # in names of variables of the environment


class SecretMatch(NamedTuple):
    """Something that looks like a secret; what it is, is not repeated.

    Attributes:
        kind: What it looks like.
        line: Where, from 1.
    """

    kind: str
    line: int


def find_secrets(text: str, environment: Mapping[str, str] | None = None) -> list[SecretMatch]:
    """Returns what looks like a secret, in the order of the text; one per line and kind.

    Args:
        text: A script, a command, a skill, a value, a reason.
        environment: Whose values are looked for too, where a name says that it is a secret; None: this process's.
    """
    if len(text) < _MIN_LENGTH:
        return []
    variables = os.environ if environment is None else environment
    text = _INVISIBLE.sub("", text)
    starts = sorted({*_find_in_text(text), *_find_environment_values(variables, text)})
    return list(dict.fromkeys(_iter_matches(text, starts)))


def _iter_matches(text: str, starts: Iterable[tuple[int, str]]) -> Iterator[SecretMatch]:
    """Yields what was found with its line; starts are in the order of the text, so that no line is counted twice."""
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
    for found in _NAMED_VALUE.finditer(text):
        if (value := found[4]) is None:  # a call's
            continue
        # A word of the program, such as a variable's name, is no secret; a literal or a long opaque string is.
        is_literal = found[3].endswith(('"', "'")) or any(char.isdigit() for char in value)
        if len(value) >= _MIN_LENGTH and is_literal and not _PLACEHOLDER.match(value):
            yield found.start(), f"value of {found[1].lower()}"


def _find_private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yields where private keys begin and end; the end of the text ends one too."""
    position, end = 0, (0, 0)
    while begin_match := _KEY_BEGIN.search(text, position):
        if end[0] < begin_match.end():  # else it is the next END of this one as well, and need not be looked for again
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
    for name, value in environment.items():
        if len(value) >= _MIN_LENGTH and _SECRET_NAME.search(name) and (start := text.find(value)) >= 0:
            yield start, f"value of the variable {name}"


def redact(text: str) -> str:
    """Returns a text without control sequences of a terminal and without what looks like a secret.

    A long string counts as opaque when it mixes letters and digits as no name, path or number does.
    """
    text = _ESCAPES.sub("", text)
    if len(text) < _MIN_LENGTH:
        return text
    text = _remove_private_keys(text)
    text = _KNOWN_FORMATS.sub(HIDDEN, text)
    text = _NAMED_VALUE.sub(lambda match: f"{match[1]}{match[2]}{match[3]}{HIDDEN}" if match[4] else match[0], text)
    return _OPAQUE.sub(lambda match: HIDDEN if _is_opaque(match[0]) else match[0], text)


def _is_opaque(word: str) -> bool:
    """Says whether a long word is a secret rather than a name, a path or a number: it changes its kind often."""
    kinds = ["d" if char.isdigit() else "u" if char.isupper() else "l" if char.islower() else "" for char in word]
    if "/" in word and all(len(part) < 24 for part in word.split("/")):
        return False  # a path
    letters = {"l", "u"} & set(kinds)
    changes = sum(left != right for left, right in itertools.pairwise(kinds) if left and right)
    return bool(letters) and "d" in kinds and changes >= len(word) // 6
