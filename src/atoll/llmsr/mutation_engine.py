"""LLM mutation engine: shows an LLM versions of a function and parses the next version."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from atoll import function, llm, mutation, profiler
from atoll.llmsr.source import Source, parse_functions

# The idea of FunSearch: an LLM that sees f_v0 and a better f_v1 continues with f_v2.
SYSTEM_TEMPLATE = '''\
You improve one Python function step by step. {comment}

Keep its documentation unchanged:
"""
{docstring}
"""'''
USER_TEMPLATE = """\
The versions below are ordered from worse to better. Write {name}, which should score higher than {last}. Keep the \
arguments. Change the structure, not only the numbers{hint}. Do not call another version.

```python
{versions}
```

Answer with the complete function {name} in one ```python block. Write nothing else.
"""

# A small LLM answers the same prompt with the same few functions, so most prompts ask for another kind of change.
HINTS = (
    "",
    ": use a power, a logarithm, an exponential or a ratio",
    ": treat two cases differently, with a condition",
    ": add a term that no version has",
    ": combine two measures with weights",
    ": compute a helper value first and use it in the result",
    ": begin with another main idea",
)


def format_version_name(name: str, index: int) -> str:
    """Returns the name of a version in the prompt."""
    return f"{name}_v{index}"


def build_prompt(
    sources: Sequence[Source], comment: str, docstring: str, scores: Sequence[float] = (), hint: str = ""
) -> str:
    """Returns the prompt for the next version. The sources are ordered from worse to better, as are their scores."""
    name = sources[0].name
    score_texts = _format_scores(scores) if scores else [""] * len(sources)
    versions = [
        source.rename(format_version_name(name, index)).with_docstring(_format_docstring(name, index, score_text))
        for index, (source, score_text) in enumerate(zip(sources, score_texts, strict=True))
    ]
    next_source = sources[0].rename(format_version_name(name, len(sources)))
    versions.append(f"{next_source.header}\n{next_source.indent}{_format_docstring(name, len(sources))}")
    user_text = USER_TEMPLATE.format(
        name=format_version_name(name, len(sources)),
        last=format_version_name(name, len(sources) - 1),
        hint=hint,
        versions="\n\n".join(versions),
    )
    system_text = SYSTEM_TEMPLATE.format(comment=comment.strip(), docstring=docstring)
    return llm.ChatPrompt(("system", system_text), ("user", user_text))


def _format_docstring(name: str, index: int, score_text: str = "") -> str:
    origin = f"Improved version of `{format_version_name(name, index - 1)}`." if index else ""
    text = " ".join(part for part in (origin, score_text) if part)
    return f'"""{text}"""' if text else ""


def _format_scores(scores: Sequence[float]) -> list[str]:
    """Returns the scores as sentences, with as many digits as are needed to tell them apart."""
    digits = next((count for count in (6, 9, 12) if len({f"{score:.{count}g}" for score in scores}) == len(scores)), 6)
    return [f"Score {score:.{digits}g}." for score in scores]


MAX_CHARACTERS = 50_000
MAX_CUTS = 20  # each cut costs one more parse
MAX_BLOCKS = 6  # blocks of a response that are tried


def parse_response(text: str, parent: Source, version: int) -> str:
    """Returns the function in a response with the name, header and docstring of its parent.

    The response may be the function, with or without a fence, or only its body. Of several blocks, the last one that
    has the function counts. Text after the last valid line is cut, as in FunSearch. Imports and helpers of the response
    move into the body.

    Args:
        text: The response.
        parent: The best version in the prompt. All versions have the same header and docstring.
        version: Index of the requested version.

    Raises:
        ValueError: The response has no function, is too long, has other arguments, or calls another version.
        SyntaxError: The function does not compile.
    """
    cleaned = mutation.clean_response(text)
    blocks = [block.text for block in mutation.iter_fenced_blocks(cleaned)][-MAX_BLOCKS:]
    failures = list[ValueError | SyntaxError]()
    for code in [*reversed(blocks), cleaned] if blocks else [cleaned]:
        try:
            return _build_function(code, parent, version)
        except (ValueError, SyntaxError) as failure:
            failures.append(failure)
    raise failures[0]


def _build_function(code: str, parent: Source, version: int) -> str:
    if len(code) > MAX_CHARACTERS:
        raise ValueError(f"the response has {len(code):,} characters; the limit for a function is {MAX_CHARACTERS:,}")
    child = _find_function(mutation.mend_python(code)[0], parent, version)
    child = replace(child.rename(parent.name), header=parent.header)
    source = child.with_docstring(parent.documentation)
    version_names = [name for name in _iter_names(source) if re.fullmatch(rf"{re.escape(parent.name)}_v\d+", name)]
    if version_names:
        raise ValueError(f"the response calls {version_names[0]}, which is another version")
    compile(source, "<response>", "exec", dont_inherit=True)
    return source


def _find_function(code: str, parent: Source, version: int) -> Source:
    valid_code = _cut_to_valid_prefix(code)
    sources = {source.name: source for source in parse_functions(valid_code)}
    expected_names = (format_version_name(parent.name, version), parent.name)
    name = next((found_name for found_name in (*expected_names, *reversed(sources)) if found_name in sources), None)
    if name is None:
        return _parse_body(code, parent)
    chosen = sources[name]
    if chosen.arguments != parent.arguments:
        raise ValueError(f"{name} takes ({', '.join(chosen.arguments)}), not ({', '.join(parent.arguments)})")
    helpers = _iter_helpers(valid_code, chosen.name, parent.name)
    body = "\n".join((*(_indent(helper, chosen.indent) for helper in helpers), chosen.body))
    return replace(chosen, body=body)


def _cut_to_valid_prefix(code: str) -> str:
    """Returns the longest valid prefix of the lines."""
    lines = code.splitlines()
    for _ in range(MAX_CUTS):
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            lines = lines[: min(len(lines), error.lineno or len(lines)) - 1]
        except ValueError:  # a null byte
            return ""
        else:
            return "\n".join(lines)
    return ""


def _parse_body(code: str, parent: Source) -> Source:
    """Parses a response that has only the body of the function."""
    lines = code.strip("\n").splitlines()
    is_unindented = any(line and not line[0].isspace() for line in lines)
    body = "\n".join(f"{parent.indent}{line}" for line in lines) if is_unindented else "\n".join(lines)
    source = next(parse_functions(_cut_to_valid_prefix(f"{parent.header}\n{body}")), None)
    if source is None or "return" not in source.body:
        raise ValueError("the response has no function")
    return source


def _iter_helpers(code: str, chosen_name: str, parent_name: str) -> Iterator[str]:
    """Yields the imports, constants and helpers of a response, without versions of the function."""
    helper_types = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef
    version_pattern = re.compile(rf"{re.escape(parent_name)}(_v\d+)?")
    for node in ast.parse(code).body:
        is_function_version = isinstance(node, ast.FunctionDef) and (
            node.name == chosen_name or version_pattern.fullmatch(node.name)
        )
        is_unusable = isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*")
        if isinstance(node, helper_types) and not is_function_version and not is_unusable:
            yield ast.unparse(node)  # it writes multi-line strings on one line, so that indentation is safe


def _indent(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" for line in text.splitlines())


def _iter_names(source: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))


class PyMutationEngine:
    """Shows an LLM the functions as versions, worst first, and parses the next version from its response.

    Args:
        prompt_comment: Purpose of the function, in the words of the user.
        docstring: Shown unchanged in every prompt.
        language_model: Called once per mutation.
        has_feedback: Whether the prompt states the score of each version and the kind of change to try; in the
            publications it does not.
    """

    def __init__(
        self, prompt_comment: str, docstring: str, language_model: llm.LLM, *, has_feedback: bool = False
    ) -> None:
        self._comment, self._docstring, self._llm = prompt_comment, docstring, language_model
        self._has_feedback = has_feedback
        self._profilers = profiler.Profilers[function.MutationEngineEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[function.MutationEngineEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    def mutate(self, fn_list: list[function.Function]) -> function.Function:
        """Asks the LLM for the next version.

        Raises:
            ValueError: The response has no usable function.
        """
        return self._mutate(fn_list, hint="")

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Asks the LLM for the next version, with a random hint if the prompts have feedback.

        Raises:
            ValueError: The response has no usable function.
        """
        hint = context.rng.choice(HINTS) if self._has_feedback else ""
        return [self._mutate(list(context.parents), hint)]

    def _mutate(self, fn_list: list[function.Function], hint: str) -> function.Function:
        self._profilers.emit(function.OnMutate("on_mutate", fn_list))
        ordered = sorted(fn_list, key=function.get_fitness)
        sources = [next(parse_functions(str(fn.skeleton()))) for fn in ordered]
        scores = [function.get_fitness(fn) for fn in ordered] if self._has_feedback else []
        response = self._llm(build_prompt(sources, self._comment, self._docstring, scores, hint))
        text = parse_response(response.text, sources[-1], len(sources))
        parent = ordered[-1]
        child = function.derive_child(parent, mutation.with_text(parent, text), engine="llm", model=response.model)
        self._profilers.emit(function.OnMutated("on_mutated", (fn_list, child)))
        return child


class AnnouncingProposer:
    """Proposer that emits the events of a mutation engine."""

    def __init__(self, proposer: function.Proposer) -> None:
        self._proposer = proposer
        self._profilers = profiler.Profilers[function.MutationEngineEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[function.MutationEngineEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parents = list(context.parents)
        self._profilers.emit(function.OnMutate("on_mutate", parents))
        children = self._proposer.propose(context)
        for child in children:
            self._profilers.emit(function.OnMutated("on_mutated", (parents, child)))
        return children
