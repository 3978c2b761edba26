"""What a text says, apart from how it is spelt: plain words and stems."""

import functools
import re
import unicodedata
from collections.abc import Sequence

_STOP = """a an the this that these those it its is are was were be been being am do does did to of in on at by for from
with as and or so then there here you your we our they their he she his her i my me us them what which who whom than
into onto upon about also just very really please have has had will would can could may might must should shall own
each any some such when if whenever where while because since how why"""
STOP = frozenset(_STOP.split())
_WORD = re.compile(r"[^\W_]+(?:\.[0-9]+)*", re.UNICODE)
_SHORT = re.compile("[^aeiou][aeiou][^aeiouwxy]")  # what had a silent e: `not` of `noted`
_WHOLE = frozenset({"during", "evening", "morning", "nothing", "something", "anything", "everything"})
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # scripts that put no spaces between words


@functools.lru_cache(maxsize=4_096)
def plain(text: str) -> str:
    """Returns the words of a text, in one width and case, with single spaces between them and nothing else."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return " ".join(_WORD.findall(folded.replace("'", "")))


@functools.lru_cache(maxsize=4_096)
def terms(text: str) -> Sequence[str]:
    """Returns what a text can be found by: stems without the words that every text has; pairs of wide letters."""
    found: list[str] = []
    for word in plain(text).split():
        if _WIDE.search(word):
            found += [word[place : place + 2] for place in range(max(1, len(word) - 1))]
        elif word not in STOP:
            found.append(stem(word))
    return tuple(found)


@functools.lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """Cuts the endings of English inflection: lazily, and alike for all forms of a word."""
    if len(word) <= 3 or word in _WHOLE or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("lves"):
        return f"{word[:-3]}f"
    for ending, put in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("zes", "z")):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return _bare(word[: -len(ending)] + put)
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and re.search("[aeiouy]", root):
            return _bare(f"{root}e" if _SHORT.fullmatch(root) else _undoubled(root))
    return _bare(word)


def _bare(word: str) -> str:
    """Takes the last e or turns the last y, so that `move`, `moved` and `moving` or `carry` and `carried` agree."""
    if len(word) > 4 and word.endswith("e"):
        return word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word


def _undoubled(root: str) -> str:
    return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz" else root
