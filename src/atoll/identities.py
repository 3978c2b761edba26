"""Who is who: names of people, folded so that no two which look alike count as two."""

import unicodedata

from atoll import errors

_MAX_LENGTH = 200
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
)  # shown as nothing, though of no such category
_VARIATION_SELECTORS = frozenset(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_FORBIDDEN_CATEGORIES = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))  # end a line, or are no characters at all
_SIMILAR_ALPHABETS = (
    "LATIN",
    "CYRILLIC",
    "GREEK",
    "COPTIC",
    "ARMENIAN",
    "CHEROKEE",
    "LISU",
)  # alphabets that share shapes
# A whole name can be written in the letters of another alphabet, as Cyrillic ve, o, ve reads BOB.
_OTHER_ALPHABETS = str.maketrans("авекмнорстухіјѕαβεζηικμνορτυχ", "abekmhopctyxijsabezhikmnoptyx")
# Latin has letters that differ by a dot, a hook or a stroke, which are no accents to Unicode, and small capitals.
_HOOKED_LETTERS = str.maketrans("ıɩɨȷɑɡƒɫłǀøđħŧƀ", "iiijagflllodhtb")
_SMALL_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
LOOKALIKES = _OTHER_ALPHABETS | _HOOKED_LETTERS | _SMALL_CAPITALS


def normalize_name(name: str) -> str:
    """Returns a name as it is compared: two that a reader could take for one are one.

    Case, width, accents of alphabetic letters, what is shown as nothing, the number of blanks and a last full stop or
    the like do not count.

    Raises:
        SetupError: It cannot be the name of a person: it shows nothing, has characters that break a line or stand for
            none, or mixes alphabets that share shapes.
    """
    if len(name) > _MAX_LENGTH or any(unicodedata.category(char) in _FORBIDDEN_CATEGORIES for char in name):
        raise errors.SetupError(
            f"{name!a:.60} cannot be the name of a person: use one line of at most {_MAX_LENGTH} readable characters."
        )
    stripped = _strip_marks(name)
    if not stripped:
        raise errors.SetupError("A decision needs a name that can be read: say who decides.")
    if len(alphabets := sorted({alphabet for alphabet in map(_get_alphabet, stripped) if alphabet})) > 1:
        raise errors.SetupError(
            f"{name!a:.60} cannot be the name of a person: it mixes {' and '.join(alphabets)} letters; use one of them."
        )
    return _strip_punctuation(stripped).translate(LOOKALIKES)


def _strip_marks(name: str) -> str:
    letters: list[str] = []
    is_alphabetic = False
    for char in unicodedata.normalize("NFKD", name):
        category = unicodedata.category(char)
        if (
            category == "Cf"
            or char in _INVISIBLE
            or char in _VARIATION_SELECTORS
            or (category == "Mn" and is_alphabetic)
        ):
            continue
        if category != "Mn":  # of other scripts a mark is a letter: a vowel of Hindi, say
            is_alphabetic = bool(_get_alphabet(char)) or not char.isalpha()
        letters.append(char)
    return unicodedata.normalize("NFKC", " ".join("".join(letters).split()).casefold())


def _strip_punctuation(name: str) -> str:
    """Returns a name without the punctuation at its end, unless it is nothing else."""
    end = len(name)
    while end and (name[end - 1] == " " or unicodedata.category(name[end - 1]).startswith("P")):
        end -= 1
    return name[:end] or name


def _get_alphabet(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script.title() if script in _SIMILAR_ALPHABETS and letter.isalpha() else ""
