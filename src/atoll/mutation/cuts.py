"""What a prompt shows of a text that is too long for it."""

CUT = "\n[... cut ...]\n"


def middle_cut(text: str, size: int) -> str:
    """Returns beginning and end of a text that is too long: an error says at its end what happened."""
    if len(text) <= size:
        return text
    half = (size - len(CUT)) // 2
    return text[:half] + CUT + text[-half:] if half > 0 else ""
