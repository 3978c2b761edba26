"""Garbles texts: cuts, repeats, mixes, and inserts pieces that have broken parsers."""

from collections.abc import Sequence

from hypothesis import strategies as st

PIECES = (
    "\x00",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "\u202e",
    "\ufeff",
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5_000,
    "[" * 3_000,
    '{"a":' * 3_000,
    "(" * 300,
    "```",
    "---\n",
    "null",
    "{}",
    "[]",
    '""',
    "\\",
    "\r",
    "\u2028",
    "../../etc/passwd",
    "&a *a",
    "!!python/object:os.system ",
    "<<<<<<< SEARCH\n",
    "=======\n",
    ">>>>>>> REPLACE\n",
    "Day 99999999999999999999-1:",
    "def f(): return f()",
    "%s%n{0}{a.b}",
)


def texts(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """Returns garbled samples, and now and then something made of pieces alone."""
    return st.one_of(_spoilt(samples), st.lists(st.sampled_from((*PIECES, *samples)), max_size=4).map("".join))


@st.composite
def _spoilt(draw: st.DrawFn, samples: Sequence[str]) -> str:
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.just(""), st.sampled_from(PIECES), st.just(text[start:end] * 2), st.text(max_size=5)))
        text = text[:start] + piece + text[end:]
    return text
