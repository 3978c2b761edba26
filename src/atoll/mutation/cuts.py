"""What a prompt shows of a text that is too long for it."""

CUT_MARKER = "\n[... cut ...]\n"


def cut_middle(text: str, max_size: int) -> str:
    """Returns beginning and end of a text that is too long: an error says at its end what happened."""
    if len(text) <= max_size:
        return text
    half = (max_size - len(CUT_MARKER)) // 2
    return text[:half] + CUT_MARKER + text[-half:] if half > 0 else ""
