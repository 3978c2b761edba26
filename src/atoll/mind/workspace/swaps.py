"""The smallest edits of Python: one operator, number or word for a like one; most mistakes are no larger."""

import io
import tokenize
from collections.abc import Iterator, Sequence

_TOKEN_GROUPS: Sequence[Sequence[str]] = (
    ("<", "<=", ">", ">=", "==", "!="),
    ("+", "-"),
    ("*", "/", "//", "%"),
    ("+=", "-="),
    ("*=", "/=", "//="),
    ("and", "or"),
    ("True", "False"),
    ("min", "max"),
    ("any", "all"),
    ("break", "continue"),
)
_ALTERNATIVES = {token: [alternative for alternative in group if alternative != token] for group in _TOKEN_GROUPS for token in group}


def generate_swaps(text: str) -> Iterator[tuple[int, str]]:
    """Yields every version of a program in which one token stands for a like one, with the number of its line.

    A program that cannot be read yields nothing.
    """
    lines = text.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        row, column = token.start
        for alternative in _get_alternatives(token):
            line = lines[row - 1]
            changed_line = line[:column] + alternative + line[token.end[1] :]
            changed_text = "".join((*lines[: row - 1], changed_line, *lines[row:]))
            if _compiles(changed_text):
                yield row, changed_text


def _get_alternatives(token: tokenize.TokenInfo) -> Sequence[str]:
    if token.type == tokenize.NUMBER and token.string.isdigit():
        value = int(token.string)
        return [str(neighbor) for neighbor in (value + 1, value - 1) if neighbor >= 0]
    if token.type in (tokenize.OP, tokenize.NAME):
        return _ALTERNATIVES.get(token.string, ())
    return ()


def _compiles(text: str) -> bool:
    try:
        compile(text, "<swap>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
