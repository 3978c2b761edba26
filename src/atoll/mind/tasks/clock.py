"""Times of day in plans: 9:05AM, 9 am, 14:30, noon."""

import re

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
