"""Words of texts in any language, for search and comparison. English words are reduced to stems."""

import functools
import re
import unicodedata
from collections.abc import Sequence

_STOP_TEXT = """a an the this that these those it its is are was were be been being am do does did to of in on at by for
from with as and or so then there here you your we our they their he she his her i my me us them what which who whom
than into onto upon about also just very really please have has had will would can could may might must should shall own
each any some such when if whenever where while because since how why"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
_WORD = re.compile(r"[^\W_]+(?:\.[0-9]+)*", re.UNICODE)
_SHORT_STEM = re.compile("[^aeiou][aeiou][^aeiouwxy]")  # stems that lost a silent e: `noted` is `note`, not `not`
_PLURAL_ENDINGS = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("zes", "z"))
_UNINFLECTED = frozenset({"during", "evening", "morning", "nothing", "something", "anything", "everything"})
_UNSPACED_SCRIPT = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # scripts without spaces between words


@functools.lru_cache(maxsize=4_096)
def normalize_words(text: str) -> str:
    """Returns the words of a text in lower case and normal width, separated by single spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return " ".join(_WORD.findall(folded.replace("'", "")))


@functools.lru_cache(maxsize=4_096)
def extract_terms(text: str) -> Sequence[str]:
    """Returns search terms: stems without stop words, and letter pairs for scripts without spaces."""
    result: list[str] = []
    for word in normalize_words(text).split():
        if _UNSPACED_SCRIPT.search(word):
            result += [word[index : index + 2] for index in range(max(1, len(word) - 1))]
        elif word not in STOP_WORDS:
            result.append(stem(word))
    return tuple(result)


@functools.lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """Removes English inflection endings. All forms of a word should give the same stem."""
    if len(word) <= 3 or word in _UNINFLECTED or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("lves"):
        return f"{word[:-3]}f"
    for ending, replacement in _PLURAL_ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return _strip_ending(word[: -len(ending)] + replacement)
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and re.search("[aeiouy]", root):
            return _strip_ending(f"{root}e" if _SHORT_STEM.fullmatch(root) else _undouble(root))
    return _strip_ending(word)


def _strip_ending(word: str) -> str:
    """Drops a final e and turns a final y into i, so that `move` and `moved`, `carry` and `carried` agree."""
    if len(word) > 4 and word.endswith("e"):
        return word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word


def _undouble(root: str) -> str:
    return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz" else root
