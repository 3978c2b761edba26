"""Refuses what was there before, before its evaluation is paid (P16).

A screen decides from the proposal alone, so that neither timing nor a resume can change what it says: it compares with
the parents and with all that the model was shown, and keeps no index of the run. What is word for word the same as
anything judged before costs nothing anyway: the evolver remembers evaluations by content.
"""

import ast
import hashlib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from atoll import gate

_WORD = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[^\w\s]")
_SHINGLE = 5  # tokens
_DYNAMIC = {"locals", "vars", "eval", "exec"}  # with these the names of locals matter


@dataclass(frozen=True, slots=True)
class Novel:
    """A screen that rejects a program which its kin make superfluous.

    First by a hash of the normalised program: for Python of its syntax tree, without docstrings, comments, layout and
    the names of locals; for others of its words. Then by shingles of tokens, if the numbers and operators are the same:
    a changed constant or comparison is a new program, however small the change, and other words may not be.

    Attributes:
        is_python: Whether programs have a syntax tree.
        threshold: The similarity of shingles (Jaccard) from which on two programs count as one; above 1, only the hash
            counts.
    """

    is_python: bool = True
    threshold: float = 0.99

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        ours = portrait(proposal.candidate.content, self.is_python)
        for other in proposal.kin:
            theirs = portrait(other.content, self.is_python)
            if ours.digest == theirs.digest:
                return gate.Decision("reject", f"it repeats {other.id} in other words", "novelty")
            if ours.marks == theirs.marks and (alike := similarity(ours, theirs)) >= self.threshold:
                return gate.Decision("reject", f"it is {alike:.1%} the same as {other.id}", "novelty")
        return gate.Decision("accept", "it is new", "novelty")


class Portrait(NamedTuple):
    """What a program is compared by: a hash, the shingles of its tokens, its numbers and operators."""

    digest: bytes
    shingles: frozenset[int]
    marks: bytes


def similarity(one: Portrait, other: Portrait) -> float:
    """Returns the share of shingles that two programs have in common."""
    either = len(one.shingles | other.shingles)
    return len(one.shingles & other.shingles) / either if either else 1.0


@lru_cache(maxsize=512)  # kin come again and again; what it holds changes nothing but the time
def portrait(text: str, is_python: bool) -> Portrait:
    """Returns what a program is compared by."""
    tokens = list(_tokens(text, is_python))
    marks = sorted(Counter(token for token in tokens if not (token[0].isalpha() or token[0] in "_\"'")).items())
    gaps = range(max(1, len(tokens) - _SHINGLE + 1))
    shingles = frozenset(hash_of(" ".join(tokens[place : place + _SHINGLE])) for place in gaps)
    normal = (_normal(text) if is_python else None) or " ".join(tokens)
    return Portrait(_digest(normal), shingles, _digest(repr(marks)))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def hash_of(text: str) -> int:
    """Returns a number that is the same in every process, which `hash` is not."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def _tokens(text: str, is_python: bool) -> Iterator[str]:
    """Yields words, numbers and signs; for Python without comments and layout."""
    if not is_python:
        yield from _WORD.findall(text)
        return
    found = list[str]()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP, tokenize.FSTRING_MIDDLE):
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        found = _WORD.findall(text)
    yield from (token for token in found if token)


def _normal(text: str) -> str | None:
    """Returns Python in a form that layout, docstrings and names of locals do not change; None if it is none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _has_docstring(
            node
        ):
            node.body[0] = ast.Pass()
    for function in _outermost(tree):
        _rename(function)
    try:
        return ast.dump(tree)
    except RecursionError:
        return None


def _has_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _outermost(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yields the functions that are in no function, methods among them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _outermost(node)


def _rename(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Numbers the locals of a function, those of functions inside of it among them, in the order of their writing."""
    nodes = list(ast.walk(function))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    if any(node.id in _DYNAMIC for node in names):
        return
    fixed = {each.arg for each in nodes if isinstance(each, ast.arg)}
    fixed |= {name for each in nodes if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    for inner in nodes:
        if isinstance(inner, ast.ClassDef):  # what it assigns are attributes
            fixed |= {each.id for each in ast.walk(inner) if isinstance(each, ast.Name)}
    own = [node.id for node in names if isinstance(node.ctx, ast.Store) and node.id not in fixed]
    renamed: Mapping[str, str] = {name: f"${place}" for place, name in enumerate(dict.fromkeys(own))}
    for node in names:
        node.id = renamed.get(node.id, node.id)
