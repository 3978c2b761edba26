"""A Python source, read once: where it may change, and with which names."""

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from atoll.mutation.syntax.blocks import Block, Definition, imported, without_docstring
from atoll.mutation.syntax.listing import Listing
from atoll.mutation.syntax.places import Ground, Place, Spot
from atoll.mutation.syntax.sites import Site, sites_of
from atoll.mutation.syntax.uses import Uses, uses_of
from atoll.mutation.syntax.vocabulary import Functions, Vocabulary
from atoll.mutation.syntax.words import Kind

_ALIASES: dict[str, Kind] = {"np": "numpy", "numpy": "numpy", "math": "math"}
_FAULTS = (SyntaxError, ValueError, RecursionError, MemoryError)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What a rewriter knows of a source; never changed, but for sites that are found when first asked for.

    Attributes:
        lengths: How long the texts of the places are, added up: longer ones change more often.
    """

    listing: Listing
    places: Sequence[Place]
    spots: Sequence[Spot]
    functions: Functions
    lengths: Sequence[int]
    _sites: dict[int, Sequence[Site]] = field(default_factory=dict)

    def sites(self, place: int) -> Sequence[Site]:
        """Returns the expressions in a place that may be replaced."""
        found = self._sites.get(place)
        if found is None:
            root, demand, names, _ = self.places[place]
            found = self._sites[place] = sites_of(root, demand, names)
        return found


def analysed(text: str, vocabulary: Vocabulary) -> Program:
    """Reads a source, or remembers it: a good parent is asked for again and again.

    Raises:
        ValueError: It is no Python, or nothing in it may change.
    """
    return next(read for longest, read in _MEMORIES if len(text) <= longest)(text, vocabulary)


def _read(text: str, vocabulary: Vocabulary) -> Program:
    body = [each for each in without_docstring(_parsed(text).body) if not _is_main(each)]
    ground = Ground(Listing(text), vocabulary)
    plain = [each for each in body if not isinstance(each, _DEFINITIONS)]
    uses = uses_of(plain)
    definitions = list(_definitions(body))
    names = _module_names(body, [uses, *(each for _, each in definitions)], vocabulary)
    ground.number = "array" if "numpy" in names.values() else "number"
    module = Block(ground, uses)
    seen = {**names, **(module.read(plain, names) or {})}
    for node, its_uses in definitions:
        module.define(node, seen, its_uses)
    if not ground.places:
        raise ValueError("It has no expression that may change: write code, between the markers if it has any.")
    lengths = [end - start for start, end in (ground.listing.span(place.root) for place in ground.places)]
    functions = vocabulary.functions(names)
    return Program(ground.listing, ground.places, ground.spots, functions, list(accumulate(lengths)))


# Some 70 bytes are kept for each character, so that long programs are remembered for a shorter time.
_MEMORIES = tuple((longest, lru_cache(size)(_read)) for longest, size in ((2_000, 512), (20_000, 32), (sys.maxsize, 2)))


def compiles(text: str) -> bool:
    try:
        compile(text, "<program>", "exec", dont_inherit=True)
    except _FAULTS:
        return False
    return True


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except _FAULTS as error:
        raise ValueError(f"It is no Python that can be rewritten by its syntax ({error}): use an LLM.") from error


def _is_main(statement: ast.stmt) -> bool:
    """Says whether it is what runs only as a script: nobody judges that."""
    match statement:
        case ast.If(ast.Compare(ast.Name("__name__"))):
            return True
    return False


def _definitions(body: Sequence[ast.stmt]) -> Iterator[tuple[Definition, Uses]]:
    """Yields functions, classes and their methods with the uses of their own bodies."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node, uses_of(each for each in node.body if not isinstance(each, _DEFINITIONS))
            yield from _definitions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, uses_of(node.body)


def _module_names(body: Sequence[ast.stmt], uses: Sequence[Uses], vocabulary: Vocabulary) -> dict[str, Kind]:
    """Returns what is known everywhere: imports, what the namespace gives, and modules that are mentioned."""
    names: dict[str, Kind] = {}
    stored = set().union(*(each.stores for each in uses))
    mentioned = [_heads(each) for each in body if isinstance(each, ast.FunctionDef)]
    for name, kind in _ALIASES.items():
        if name not in stored and (any(name in each.loads for each in uses) or any(name in each for each in mentioned)):
            names[name] = kind
    names |= vocabulary.given
    for statement in body:
        names |= imported(statement)
        names |= {statement.name: "other"} if isinstance(statement, _DEFINITIONS) else {}
    return names


def _heads(node: ast.FunctionDef) -> list[str]:
    """Returns the modules that the annotations of a function mention: they are there, or it would not run."""
    found = [each.annotation for each in node.args.args] + [node.returns]
    return [each.value.id for each in found if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)]
