"""The smallest edits of Python: one operator, number or word for a like one; most mistakes are no larger."""

import io
import tokenize
from collections.abc import Iterator, Sequence

_ALIKE: Sequence[Sequence[str]] = (
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
_OTHERS = {each: [other for other in group if other != each] for group in _ALIKE for each in group}


def swaps(text: str) -> Iterator[tuple[int, str]]:
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
        for other in _likes(token):
            line = lines[row - 1]
            changed = line[:column] + other + line[token.end[1] :]
            after = "".join((*lines[: row - 1], changed, *lines[row:]))
            if _compiles(after):
                yield row, after


def _likes(token: tokenize.TokenInfo) -> Sequence[str]:
    if token.type == tokenize.NUMBER and token.string.isdigit():
        number = int(token.string)
        return [str(each) for each in (number + 1, number - 1) if each >= 0]
    if token.type in (tokenize.OP, tokenize.NAME):
        return _OTHERS.get(token.string, ())
    return ()


def _compiles(text: str) -> bool:
    try:
        compile(text, "<swap>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
