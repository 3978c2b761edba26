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
_SHORTEST = 8  # characters: no secret is shorter
_LONGEST_KEY = 8000  # characters between the lines of dashes of a private key

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
# Every repeat is possessive or bounded: no text makes them go back and forth.
# The name of a call is taken too, without a group, so that it is not read again from each name in it.
# One letter first: a scan for a set of letters is many times faster than one for words in any case.
_NAMED = re.compile(
    r"""(?x) ([pPsStTaA](?: (?<=[pP])(?i:assword|asswd|wd\b) | (?<=[sS])(?i:ecret) | (?<=[tT])(?i:oken)
    | (?<=[aA])(?i:pi[_-]?key|ccess[_-]?key|uthorization) ))
    (["']?\s{0,4}[:=]\s{0,4}) (?: ((?i:bearer\s|basic\s)?["']?) ([^\s"',;()}\]]{4,}+)(?!\()
    | [^\s"',;()}\]]{4,}+ )"""
)
# A token of JSON begins at the last place of a word where one can: else a word with many is read to its end from each.
_KNOWN = re.compile(
    r"""(?x) (?=[sgxAhyer]) \b(?: (?P<OpenAI_or_Anthropic_key>sk-[A-Za-z0-9_-]{16,}+)
    | (?P<GitHub_token>gh[opsur]_[A-Za-z0-9]{20,}+ | github_pat_\w{20,}+)
    | (?P<GitLab_token>glpat-[\w-]{16,}+) | (?P<Stripe_key>[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+)
    | (?P<Slack_token>xox[abeprs]-[\w-]{10,}+)
    | (?P<AWS_key_id>A(?:KIA|SIA)[A-Z0-9]{12,}+) | (?P<Google_key>AIza[\w-]{30,}+ | ya29\.[\w-]{20,}+)
    | (?P<Hugging_Face_token>hf_[A-Za-z0-9]{20,}+)
    | (?P<JSON_web_token>eyJ(?=[\w-]{10})(?:\w++|-(?!eyJ[\w-]{10}))*+\.[\w-]{10,}+(?:\.[\w-]{5,}+)?) )"""
)
_BEGIN, _END = (re.compile(rf"-----{word} [A-Z ]{{0,30}}PRIVATE KEY-----") for word in ("BEGIN", "END"))
_ADDRESS = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@\"']{0,64}:(?P<password>[^\s/@\"']{3,200}+)@")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")  # they would hide a key from a pattern
_OPAQUE = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}")
# $NAME, ${NAME}, {{name}}, %NAME%, <name>: a place where a secret will stand, and none.
_PLACE = re.compile(r"""[$%<{]|os\.|env|None\b|null\b|x{4}|\*{3}|\.\.\.""")
_TELLING = re.compile(r"(?i)key|token|secret|passw|credential")  # in names of variables of the environment


class Found(NamedTuple):
    """Something that looks like a secret; what it is, is not repeated.

    Attributes:
        kind: What it looks like.
        line: Where, from 1.
    """

    kind: str
    line: int


def find(text: str, environment: Mapping[str, str] | None = None) -> list[Found]:
    """Returns what looks like a secret, in the order of the text; one per line and kind.

    Args:
        text: A script, a command, a skill, a value, a reason.
        environment: Whose values are looked for too, where a name says that it is a secret; None: this process's.
    """
    if len(text) < _SHORTEST:
        return []
    own = os.environ if environment is None else environment
    text = _INVISIBLE.sub("", text)
    starts = sorted({*_spots(text), *_spots_of(own, text)})
    return list(dict.fromkeys(_in_lines(text, starts)))


def _in_lines(text: str, starts: Iterable[tuple[int, str]]) -> Iterator[Found]:
    """Yields what was found with its line; starts are in the order of the text, so that no line is counted twice."""
    line, place = 1, 0
    for start, kind in starts:
        line, place = line + text.count("\n", place, start), start
        yield Found(kind, line)


def _spots(text: str) -> Iterator[tuple[int, str]]:
    yield from ((start, "private key") for start, _ in _keys(text))
    yield from ((found.start(), (found.lastgroup or "key").replace("_", " ")) for found in _KNOWN.finditer(text))
    yield from (
        (found.start(), "password in an address")
        for found in _ADDRESS.finditer(text)
        if not _PLACE.match(found["password"])
    )
    for found in _NAMED.finditer(text):
        if (value := found[4]) is None:  # a call's
            continue
        # A word of the program, such as a variable's name, is no secret; a literal or a long opaque string is.
        is_literal = found[3].endswith(('"', "'")) or any(each.isdigit() for each in value)
        if len(value) >= _SHORTEST and is_literal and not _PLACE.match(value):
            yield found.start(), f"value of {found[1].lower()}"


def _keys(text: str) -> Iterator[tuple[int, int]]:
    """Yields where private keys begin and end; the end of the text ends one too."""
    place, end = 0, (0, 0)
    while begin := _BEGIN.search(text, place):
        if end[0] < begin.end():  # else it is the next END of this one as well, and need not be looked for again
            found = _END.search(text, begin.end())
            end = found.span() if found else (len(text), len(text))
        is_key = end[0] - begin.end() <= _LONGEST_KEY
        if is_key:
            yield begin.start(), end[1]
        place = end[1] if is_key else begin.start() + 1


def _without_keys(text: str) -> str:
    parts, place = list[str](), 0
    for start, end in _keys(text):
        parts += [text[place:start], HIDDEN]
        place = end
    return "".join([*parts, text[place:]])


def _spots_of(environment: Mapping[str, str], text: str) -> Iterator[tuple[int, str]]:
    for name, value in environment.items():
        if len(value) >= _SHORTEST and _TELLING.search(name) and (start := text.find(value)) >= 0:
            yield start, f"value of the variable {name}"


def redacted(text: str) -> str:
    """Returns a text without control sequences of a terminal and without what looks like a secret.

    A long string counts as opaque when it mixes letters and digits as no name, path or number does.
    """
    text = _ESCAPES.sub("", text)
    if len(text) < _SHORTEST:
        return text
    text = _without_keys(text)
    text = _KNOWN.sub(HIDDEN, text)
    text = _NAMED.sub(lambda found: f"{found[1]}{found[2]}{found[3]}{HIDDEN}" if found[4] else found[0], text)
    return _OPAQUE.sub(lambda found: HIDDEN if _is_opaque(found[0]) else found[0], text)


def _is_opaque(word: str) -> bool:
    """Says whether a long word is a secret rather than a name, a path or a number: it changes its kind often."""
    kinds = ["d" if each.isdigit() else "u" if each.isupper() else "l" if each.islower() else "" for each in word]
    if "/" in word and all(len(part) < 24 for part in word.split("/")):
        return False  # a path
    letters = {"l", "u"} & set(kinds)
    changes = sum(one != other for one, other in itertools.pairwise(kinds) if one and other)
    return bool(letters) and "d" in kinds and changes >= len(word) // 6
