"""What the model answered, read as the next version of a function."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from atoll import mutation
from atoll.llmsr import prompt
from atoll.llmsr.source import Source, parse_functions

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
        raise ValueError(f"the reply has {len(code):,} characters, more than the {MAX_CHARACTERS:,} that a function may have")
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
    expected_names = (prompt.format_version_name(parent.name, version), parent.name)
    name = next((function_name for function_name in (*expected_names, *reversed(sources)) if function_name in sources), None)
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
        is_function_version = isinstance(node, ast.FunctionDef) and (node.name == chosen_name or version_pattern.fullmatch(node.name))
        is_unusable = isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*")
        if isinstance(node, helper_types) and not is_function_version and not is_unusable:
            yield ast.unparse(node)  # its texts of several lines are on one line then, so it may be indented


def _indent(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" for line in text.splitlines())


def _iter_names(source: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
