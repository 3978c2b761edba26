"""Who is who: names of people, folded so that no two which look alike count as two."""

import unicodedata

from atoll import errors

_LONGEST = 200
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # shown as nothing, though of no such category
_SELECTORS = frozenset(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_BROKEN = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))  # end a line, or are no characters at all
_ALIKE = ("LATIN", "CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU")  # alphabets that share shapes
# A whole name can be written in the letters of another alphabet, as Cyrillic ve, o, ve reads BOB.
_OTHERS = str.maketrans("авекмнорстухіјѕαβεζηικμνορτυχ", "abekmhopctyxijsabezhikmnoptyx")
# Latin has letters that differ by a dot, a hook or a stroke, which are no accents to Unicode, and small capitals.
_HOOKED = str.maketrans("ıɩɨȷɑɡƒɫłǀøđħŧƀ", "iiijagflllodhtb")
_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
SHAPES = _OTHERS | _HOOKED | _CAPITALS


def folded(name: str) -> str:
    """Returns a name as it is compared: two that a reader could take for one are one.

    Case, width, accents of alphabetic letters, what is shown as nothing, the number of blanks and a last full stop or
    the like do not count.

    Raises:
        SetupError: It cannot be the name of a person: it shows nothing, has characters that break a line or stand for
            none, or mixes alphabets that share shapes.
    """
    if len(name) > _LONGEST or any(unicodedata.category(each) in _BROKEN for each in name):
        raise errors.SetupError(
            f"{name!a:.60} cannot be the name of a person: use one line of at most {_LONGEST} readable characters."
        )
    bare = _bare(name)
    if not bare:
        raise errors.SetupError("A decision needs a name that can be read: say who decides.")
    if len(alphabets := sorted({each for each in map(_alphabet, bare) if each})) > 1:
        raise errors.SetupError(
            f"{name!a:.60} cannot be the name of a person: it mixes {' and '.join(alphabets)} letters; use one of them."
        )
    return _unpointed(bare).translate(SHAPES)


def _bare(name: str) -> str:
    letters: list[str] = []
    is_alphabetic = False
    for each in unicodedata.normalize("NFKD", name):
        category = unicodedata.category(each)
        if category == "Cf" or each in _BLANK or each in _SELECTORS or (category == "Mn" and is_alphabetic):
            continue
        if category != "Mn":  # of other scripts a mark is a letter: a vowel of Hindi, say
            is_alphabetic = bool(_alphabet(each)) or not each.isalpha()
        letters.append(each)
    return unicodedata.normalize("NFKC", " ".join("".join(letters).split()).casefold())


def _unpointed(name: str) -> str:
    """Returns a name without the punctuation at its end, unless it is nothing else."""
    end = len(name)
    while end and (name[end - 1] == " " or unicodedata.category(name[end - 1]).startswith("P")):
        end -= 1
    return name[:end] or name


def _alphabet(letter: str) -> str:
    first = unicodedata.name(letter, "").partition(" ")[0]
    return first.title() if first in _ALIKE and letter.isalpha() else ""
