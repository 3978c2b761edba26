"""Takes out of a text what looks like a secret: keys, tokens, long opaque strings; code stays as it is."""

import itertools
import re

HIDDEN = "[hidden]"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
# Every repeat is possessive or bounded: no text makes them go back and forth.
# One letter first: a scan for a set of letters is many times faster than one for words in any case.
_NAMED = re.compile(
    r"""(?x) ([pPsStTaA](?: (?<=[pP])(?i:assword|asswd) | (?<=[sS])(?i:ecret) | (?<=[tT])(?i:oken)
    | (?<=[aA])(?i:pi[_-]?key|ccess[_-]?key|uthorization) ))
    (["']?\s{0,4}[:=]\s{0,4}) ((?i:bearer\s|basic\s)?["']?) [^\s"',;()}\]]{4,}+(?!\()"""
)
_KNOWN = re.compile(
    r"""(?x) (?=[sgxAhye]) \b(?: sk-[A-Za-z0-9_-]{16,}+ | gh[opsu]_[A-Za-z0-9]{20,}+ | github_pat_\w{20,}+
    | xox[abprs]-[\w-]{10,}+
    | AKIA[A-Z0-9]{12,}+ | AIza[\w-]{30,}+ | hf_[A-Za-z0-9]{20,}+ | ya29\.[\w-]{20,}+
    | eyJ[\w-]{10,}+\.[\w-]{10,}+(?:\.[\w-]{5,}+)? )"""
)
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.{0,8000}?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.S
)
_OPAQUE = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}")


def redacted(text: str) -> str:
    """Returns a text without control sequences of a terminal and without what looks like a secret.

    A long string counts as opaque when it mixes letters and digits as no name, path or number does.
    """
    text = _ESCAPES.sub("", text)
    if len(text) < 8:
        return text
    text = _KEYS.sub(HIDDEN, text)
    text = _KNOWN.sub(HIDDEN, text)
    text = _NAMED.sub(lambda found: f"{found[1]}{found[2]}{found[3]}{HIDDEN}", text)
    return _OPAQUE.sub(lambda found: HIDDEN if _is_opaque(found[0]) else found[0], text)


def _is_opaque(word: str) -> bool:
    """Says whether a long word is a secret rather than a name, a path or a number: it changes its kind often."""
    kinds = ["d" if each.isdigit() else "u" if each.isupper() else "l" if each.islower() else "" for each in word]
    if "/" in word and all(len(part) < 24 for part in word.split("/")):
        return False  # a path
    letters = {"l", "u"} & set(kinds)
    changes = sum(one != other for one, other in itertools.pairwise(kinds) if one and other)
    return bool(letters) and "d" in kinds and changes >= len(word) // 6
