"""Identities: author names, normalized so that names that look alike are equal."""

import unicodedata

from atoll import errors

_MAX_LENGTH = 200
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # invisible, though not of category Cf
_VARIATION_SELECTORS = frozenset(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_FORBIDDEN_CATEGORIES = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))  # line ends, controls and unassigned
_SIMILAR_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU")  # they share shapes
# A name may be spelled in another alphabet: Cyrillic ve, o, ve reads BOB.
_OTHER_ALPHABETS = str.maketrans("авекмнорстухіјѕαβεζηικμνορτυχ", "abekmhopctyxijsabezhikmnoptyx")
# Dots, hooks and strokes of Latin letters are not accents in Unicode.
_HOOKED_LETTERS = str.maketrans("ıɩɨȷɑɡƒɫłǀøđħŧƀ", "iiijagflllodhtb")
_SMALL_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
LOOKALIKES = _OTHER_ALPHABETS | _HOOKED_LETTERS | _SMALL_CAPITALS


def normalize_name(name: str) -> str:
    """Returns the form of a name that is compared: names that a reader could confuse are equal.

    Case, width, accents, invisible characters, the number of blanks and final punctuation are ignored.

    Raises:
        SetupError: The name is empty, has control characters, or mixes alphabets that share shapes.
    """
    if len(name) > _MAX_LENGTH or any(unicodedata.category(char) in _FORBIDDEN_CATEGORIES for char in name):
        raise errors.SetupError(
            f"{name!a:.60} is not a valid name: use one line of at most {_MAX_LENGTH} readable characters."
        )
    stripped = _strip_marks(name)
    if not stripped:
        raise errors.SetupError("The author's name is empty: pass a readable name.")
    if len(alphabets := sorted({alphabet for alphabet in map(_get_alphabet, stripped) if alphabet})) > 1:
        raise errors.SetupError(
            f"{name!a:.60} is not a valid name: it mixes {' and '.join(alphabets)} letters; use one of them."
        )
    return _strip_punctuation(stripped).translate(LOOKALIKES)


def _strip_marks(name: str) -> str:
    letters: list[str] = []
    is_alphabetic = False
    for char in unicodedata.normalize("NFKD", name):
        category = unicodedata.category(char)
        is_hidden = category == "Cf" or char in _INVISIBLE or char in _VARIATION_SELECTORS
        if is_hidden or (category == "Mn" and is_alphabetic):
            continue
        if category != "Mn":  # in other scripts a mark is a letter, such as a Hindi vowel
            is_alphabetic = bool(_get_alphabet(char)) or not char.isalpha()
        letters.append(char)
    return unicodedata.normalize("NFKC", " ".join("".join(letters).split()).casefold())


def _strip_punctuation(name: str) -> str:
    """Returns a name without final punctuation, unless it is all punctuation."""
    end = len(name)
    while end and (name[end - 1] == " " or unicodedata.category(name[end - 1]).startswith("P")):
        end -= 1
    return name[:end] or name


def _get_alphabet(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script.title() if script in _SIMILAR_ALPHABETS and letter.isalpha() else ""
