"""Engines that make new functions, and tell it."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from atoll import function, llm, mutation, profiler
from atoll.llmsr.source import Source, parse_functions

# FunSearch's idea in words of our own: a model that sees f_v0 and a better f_v1 goes on to f_v2.
TEMPLATE = '''\
You improve one Python function step by step. {comment}

Its documentation, which stays as it is:
"""
{docstring}
"""

The versions below are ordered from worse to better. Write {name}, which should score higher than {last}: keep the \
arguments, change the structure and not only the numbers, and call no other version.

```python
{versions}
```

Answer with the complete function {name} in one ```python block and nothing else.
'''


def format_version_name(name: str, index: int) -> str:
    """Returns the name under which a version stands in a prompt."""
    return f"{name}_v{index}"


def build_prompt(sources: Sequence[Source], comment: str, docstring: str) -> str:
    """Returns the prompt for the next version after these, which come worst first."""
    name = sources[0].name
    versions = [
        source.rename(format_version_name(name, index)).with_docstring(_format_docstring(name, index))
        for index, source in enumerate(sources)
    ]
    next_source, next_docstring = (
        sources[0].rename(format_version_name(name, len(sources))),
        _format_docstring(name, len(sources)),
    )
    versions.append(f"{next_source.header}\n{next_source.indent}{next_docstring}")
    return TEMPLATE.format(
        comment=comment.strip(),
        docstring=docstring,
        name=format_version_name(name, len(sources)),
        last=format_version_name(name, len(sources) - 1),
        versions="\n\n".join(versions),
    )


def _format_docstring(name: str, index: int) -> str:
    return f'"""Improved version of `{format_version_name(name, index - 1)}`."""' if index else ""


MAX_CHARACTERS = 50_000  # characters
MAX_CUTS = 20  # of lines that make no sense: each costs a parse of all before it


def parse_response(text: str, parent: Source, version: int) -> str:
    """Returns the function in a reply, under the name, header and docstring of its parent.

    The answer may be the function, with or without a fence, or its body alone; what follows the last line that makes
    sense is cut off, as in FunSearch. Imports and helpers that come with it move into its body.

    Args:
        text: The reply.
        parent: The best version that was shown; all have the same header and docstring.
        number: The version that was asked for.

    Raises:
        ValueError: There is no function in it, it is too long, has other arguments, or calls another version.
        SyntaxError: It does not compile.
    """
    code = mutation.extract_code(text) or text
    if len(code) > MAX_CHARACTERS:
        raise ValueError(
            f"the reply has {len(code):,} characters, more than the {MAX_CHARACTERS:,} that a function may have"
        )
    child = _find_function(code, parent, version)
    child = replace(child.rename(parent.name), header=parent.header)
    source = child.with_docstring(parent.documentation)
    version_names = [name for name in _iter_names(source) if re.fullmatch(rf"{re.escape(parent.name)}_v\d+", name)]
    if version_names:
        raise ValueError(f"the reply calls {version_names[0]}, which is another version")
    compile(source, "<reply>", "exec", dont_inherit=True)
    return source


def _find_function(code: str, parent: Source, version: int) -> Source:
    valid_code = _cut_to_valid_prefix(code)
    sources = {source.name: source for source in parse_functions(valid_code)}
    expected_names = (format_version_name(parent.name, version), parent.name)
    name = next(
        (function_name for function_name in (*expected_names, *reversed(sources)) if function_name in sources), None
    )
    if name is None:
        return _parse_body(code, parent)
    chosen = sources[name]
    if chosen.arguments != parent.arguments:
        raise ValueError(
            f"the reply's {name} takes ({', '.join(chosen.arguments)}), not ({', '.join(parent.arguments)})"
        )
    helpers = _iter_helpers(valid_code, chosen.name, parent.name)
    body = "\n".join((*(_indent(helper, chosen.indent) for helper in helpers), chosen.body))
    return replace(chosen, body=body)


def _cut_to_valid_prefix(code: str) -> str:
    """Returns as many of the first lines as Python understands."""
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
    """Reads a reply that goes on where the prompt's header ended."""
    lines = code.strip("\n").splitlines()
    is_unindented = any(line and not line[0].isspace() for line in lines)
    body = "\n".join(f"{parent.indent}{line}" for line in lines) if is_unindented else "\n".join(lines)
    source = next(parse_functions(_cut_to_valid_prefix(f"{parent.header}\n{body}")), None)
    if source is None or "return" not in source.body:
        raise ValueError("the reply holds no function")
    return source


def _iter_helpers(code: str, chosen_name: str, parent_name: str) -> Iterator[str]:
    """Yields what stands beside the function and may be needed in it: imports, constants, helpers, no versions."""
    helper_types = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef
    version_pattern = re.compile(rf"{re.escape(parent_name)}(_v\d+)?")
    for node in ast.parse(code).body:
        is_function_version = isinstance(node, ast.FunctionDef) and (
            node.name == chosen_name or version_pattern.fullmatch(node.name)
        )
        is_unusable = isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*")
        if isinstance(node, helper_types) and not is_function_version and not is_unusable:
            yield ast.unparse(node)  # its texts of several lines are on one line then, so it may be indented


def _indent(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" for line in text.splitlines())


def _iter_names(source: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))


class PyMutationEngine:
    """Shows an LLM the functions as versions, worst first, and reads the next version from its reply.

    Args:
        prompt_comment: What the function is for, in the user's words.
        docstring: Shown unchanged in every prompt.
        model: Asked once per mutation.
    """

    def __init__(self, prompt_comment: str, docstring: str, language_model: llm.LLM) -> None:
        self._comment, self._docstring, self._llm = prompt_comment, docstring, language_model
        self._profilers = profiler.Profilers[function.MutationEngineEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[function.MutationEngineEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    def mutate(self, fn_list: list[function.Function]) -> function.Function:
        """Asks for the next version.

        Raises:
            ValueError: The reply holds no function that could be used.
        """
        self._profilers.emit(function.OnMutate("on_mutate", fn_list))
        ordered = sorted(fn_list, key=function.get_fitness)
        sources = [next(parse_functions(str(fn.skeleton()))) for fn in ordered]
        response = self._llm(build_prompt(sources, self._comment, self._docstring))
        text = parse_response(response.text, sources[-1], len(sources))
        parent = ordered[-1]
        child = function.derive_child(parent, mutation.with_text(parent, text), engine="llm", model=response.model)
        self._profilers.emit(function.OnMutated("on_mutated", (fn_list, child)))
        return child


class AnnouncingProposer:
    """A proposer whose work is announced like a mutation engine's."""

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
