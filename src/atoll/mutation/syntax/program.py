"""Analysis of a Python source: its edit sites and the names in scope."""

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.blocks import BlockReader, Definition, get_imported_names, strip_docstring
from atoll.mutation.syntax.name_usage import NameUsage, collect_usage
from atoll.mutation.syntax.sites import ExpressionSite, Site, SiteIndex, StatementSite, find_sites
from atoll.mutation.syntax.source_text import SourceText
from atoll.mutation.syntax.value_kinds import AvailableFunctions, Kind, Vocabulary

_ALIASES: dict[str, Kind] = {"np": "numpy", "numpy": "numpy", "math": "math"}
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Analyzed source. It is immutable except for the cache of sites.

    Attributes:
        cumulative_lengths: Running sum of the text lengths of the expression sites. Longer ones change more often.
    """

    source_text: SourceText
    expression_sites: Sequence[ExpressionSite]
    statement_sites: Sequence[StatementSite]
    functions: AvailableFunctions
    cumulative_lengths: Sequence[int]
    _sites: dict[int, Sequence[Site]] = field(default_factory=dict)

    def get_sites(self, index: int) -> Sequence[Site]:
        """Returns the replaceable expressions inside an expression site."""
        sites = self._sites.get(index)
        if sites is None:
            root, required_kind, names, _ = self.expression_sites[index]
            sites = self._sites[index] = find_sites(root, required_kind, names)
        return sites


def analyze(text: str, vocabulary: Vocabulary) -> Program:
    """Analyzes a source, with a cache: a good parent is analyzed often.

    Raises:
        ValueError: The text is not valid Python, or nothing in it may change.
    """
    cached_analyze = next(analyzer for max_length, analyzer in _CACHED_ANALYZERS if len(text) <= max_length)
    return cached_analyze(text, vocabulary)


def _analyze(text: str, vocabulary: Vocabulary) -> Program:
    tree = _parse(text)
    body = [statement for statement in strip_docstring(tree.body) if not _is_main(statement)]
    site_index = SiteIndex(SourceText(text), vocabulary)
    plain_statements = [statement for statement in body if not isinstance(statement, _DEFINITIONS)]
    usage = collect_usage(plain_statements)
    definitions = list(_iter_definitions(body))
    names = _module_names(body, [usage, *(definition_usage for _, definition_usage in definitions)], vocabulary)
    site_index.number_kind = "array" if "numpy" in names.values() else "number"
    module = BlockReader(site_index, usage)
    known_names = {**names, **(module.read(plain_statements, names) or {})}
    for node, definition_usage in definitions:
        module.define(node, known_names, definition_usage)
    fixed = numbers.find_fixed_literals(tree)
    site_index.expression_sites = [
        site for site in site_index.expression_sites if (site.root.lineno, site.root.col_offset) not in fixed
    ]
    if not site_index.expression_sites:
        raise ValueError("The source has no expression that may change. Write code, between the markers if it has any.")
    source_text, expression_sites = site_index.source_text, site_index.expression_sites
    spans = [source_text.get_span(site.root) for site in expression_sites]
    lengths = list(accumulate(end - start for start, end in spans))
    functions = vocabulary.list_functions(names)
    return Program(source_text, expression_sites, site_index.statement_sites, functions, lengths)


# A cached program takes about 70 bytes per character, so the caches for long programs are smaller.
_CACHE_SIZES = ((2_000, 512), (20_000, 32), (sys.maxsize, 2))  # maximal length of a program, number of programs
_CACHED_ANALYZERS = tuple((max_length, lru_cache(size)(_analyze)) for max_length, size in _CACHE_SIZES)


def compiles(text: str) -> bool:
    try:
        compile(text, "<program>", "exec", dont_inherit=True)
    except _PARSE_ERRORS:
        return False
    return True


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except _PARSE_ERRORS as error:
        raise ValueError(f"The source is not valid Python ({error}). Use an LLM for this source.") from error


def _is_main(statement: ast.stmt) -> bool:
    """Returns whether a statement is the `__main__` block, which evaluation never runs."""
    match statement:
        case ast.If(ast.Compare(ast.Name("__name__"))):
            return True
    return False


def _iter_definitions(body: Sequence[ast.stmt]) -> Iterator[tuple[Definition, NameUsage]]:
    """Yields functions, classes and their methods with the name usage of their bodies."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node, collect_usage(statement for statement in node.body if not isinstance(statement, _DEFINITIONS))
            yield from _iter_definitions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, collect_usage(node.body)


def _module_names(body: Sequence[ast.stmt], usages: Sequence[NameUsage], vocabulary: Vocabulary) -> dict[str, Kind]:
    """Returns the global names: imports, predefined names, definitions and mentioned modules."""
    names: dict[str, Kind] = {}
    stored = set().union(*(usage.stores for usage in usages))
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    mentioned = set().union(*map(_find_annotation_modules, functions), *(usage.loads for usage in usages))
    for name, kind in _ALIASES.items():
        if name not in stored and name in mentioned:
            names[name] = kind
    names |= vocabulary.predefined_names
    for statement in body:
        names |= get_imported_names(statement)
        names |= {statement.name: "other"} if isinstance(statement, _DEFINITIONS) else {}
    return names


def _find_annotation_modules(node: ast.FunctionDef) -> list[str]:
    """Returns the modules in the annotations of a function. They exist, or the function would not run."""
    annotations = [argument.annotation for argument in node.args.args] + [node.returns]
    values = [annotation.value for annotation in annotations if isinstance(annotation, ast.Attribute)]
    return [value.id for value in values if isinstance(value, ast.Name)]
