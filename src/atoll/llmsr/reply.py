"""What the model answered, read as the next version of a function."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from atoll import mutation
from atoll.llmsr import prompt
from atoll.llmsr.source import Source, functions

LONGEST = 50_000  # characters
MOST_CUTS = 20  # of lines that make no sense: each costs a parse of all before it


def read(text: str, parent: Source, number: int) -> str:
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
    code = mutation.fenced_code(text) or text
    if len(code) > LONGEST:
        raise ValueError(f"the reply has {len(code):,} characters, more than the {LONGEST:,} that a function may have")
    found = _function(code, parent, number)
    found = replace(found.renamed(parent.name), header=parent.header)
    source = found.with_docstring(parent.documentation)
    others = [name for name in _names(source) if re.fullmatch(rf"{re.escape(parent.name)}_v\d+", name)]
    if others:
        raise ValueError(f"the reply calls {others[0]}, which is another version")
    compile(source, "<reply>", "exec", dont_inherit=True)
    return source


def _function(code: str, parent: Source, number: int) -> Source:
    whole = _longest_prefix(code)
    found = {source.name: source for source in functions(whole)}
    wanted = (prompt.version(parent.name, number), parent.name)
    name = next((each for each in (*wanted, *reversed(found)) if each in found), None)
    if name is None:
        return _body_alone(code, parent)
    chosen = found[name]
    if chosen.arguments != parent.arguments:
        raise ValueError(
            f"the reply's {name} takes ({', '.join(chosen.arguments)}), not ({', '.join(parent.arguments)})"
        )
    luggage = _luggage(whole, chosen.name, parent.name)
    body = "\n".join((*(_indented(each, chosen.indent) for each in luggage), chosen.body))
    return replace(chosen, body=body)


def _longest_prefix(code: str) -> str:
    """Returns as many of the first lines as Python understands."""
    lines = code.splitlines()
    for _ in range(MOST_CUTS):
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            lines = lines[: min(len(lines), error.lineno or len(lines)) - 1]
        except ValueError:  # a null byte
            return ""
        else:
            return "\n".join(lines)
    return ""


def _body_alone(code: str, parent: Source) -> Source:
    """Reads a reply that goes on where the prompt's header ended."""
    lines = code.strip("\n").splitlines()
    is_flush = any(line and not line[0].isspace() for line in lines)
    body = "\n".join(f"{parent.indent}{line}" for line in lines) if is_flush else "\n".join(lines)
    found = next(functions(_longest_prefix(f"{parent.header}\n{body}")), None)
    if found is None or "return" not in found.body:
        raise ValueError("the reply holds no function")
    return found


def _luggage(code: str, chosen: str, name: str) -> Iterator[str]:
    """Yields what stands beside the function and may be needed in it: imports, constants, helpers, no versions."""
    kept = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef
    is_version = re.compile(rf"{re.escape(name)}(_v\d+)?")
    for node in ast.parse(code).body:
        is_named = isinstance(node, ast.FunctionDef) and (node.name == chosen or is_version.fullmatch(node.name))
        is_odd = isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*")
        if isinstance(node, kept) and not is_named and not is_odd:
            yield ast.unparse(node)  # its texts of several lines are on one line then, so it may be indented


def _indented(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" for line in text.splitlines())


def _names(source: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
