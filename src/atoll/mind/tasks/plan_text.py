"""Plain lines of a plan: the typography, bullets, emphasis and fences of a response are removed."""

import re

from atoll import mutation

_DASHES = re.compile("[\u2010-\u2015\u2212]")
_SPACES = re.compile(r"[^\S\n]+")
# Bullets, numbers of a list and quotation marks at the start of a line.
_BULLET = re.compile(r"^ ?(?:[-*+>\u2022\u25e6|#]+ ?|\(?\d{1,2}[.)] (?=[A-Za-z*_]))+", re.MULTILINE)
_EMPHASIS = re.compile(r"\*+|__|`+")
_MERIDIEM = re.compile(r"\b([AaPp])\.\s?[Mm]\b(\.?(?=\s+[A-Z]|\s*$))?\.?")  # its last period may end a sentence


def normalize(text: str) -> str:
    """Returns a text with plain dashes and spaces, without bullets, emphasis and fences. Lines stay lines."""
    text = _DASHES.sub("-", mutation.clean_response(text))
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("```", "~~~")))
    text = _MERIDIEM.sub(lambda match: f"{match[1]}M{match[2] or ''}", _SPACES.sub(" ", text))
    return _SPACES.sub(" ", _BULLET.sub("", _EMPHASIS.sub("", _BULLET.sub("", text)))).strip()
