"""Reading of plans: plain lines without the markup of a response, and times of day such as 9:05AM or noon."""

import re

from atoll import mutation

# One time of day. A number alone, such as "9", is not a time.
CLOCK = r"(?:\d{1,2}[:.]\d{2}\s?[AaPp]\.?[Mm]\b\.?|\d{1,2}\s?[AaPp]\.?[Mm]\b\.?|\d{1,2}:\d{2}|[Nn]oon|[Mm]idnight)"
_PARTS = re.compile(r"(\d{1,2})(?:[:.](\d{2}))?\s?([AaPp])?")
_NAMES = {"noon": 12 * 60, "midnight": 24 * 60}


def parse_time(text: str) -> int:
    """Returns a time of day in minutes. Accepts what `CLOCK` matches."""
    text = text.strip().lower()
    if text in _NAMES:
        return _NAMES[text]
    match = _PARTS.search(text)
    if match is None:
        return 0
    hour, minute = int(match[1]), int(match[2] or 0)
    return (hour % 12 + (12 if match[3] == "p" else 0) if match[3] else hour) * 60 + minute


def format_time(minutes: int) -> str:
    """Returns minutes of the day as a time such as 9:05AM."""
    hour = minutes // 60 % 24
    return f"{hour % 12 or 12}:{minutes % 60:02d}{'AM' if hour < 12 else 'PM'}"


def format_24_hours(minutes: int) -> str:
    """Returns minutes of the day as a time such as 14:30."""
    return f"{minutes // 60}:{minutes % 60:02d}"


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
