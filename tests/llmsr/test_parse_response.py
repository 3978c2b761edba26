"""parse_response."""

import pytest

from atoll.llmsr import mutation_engine, source

START = 'def f(x, n=2):\n    """Grows."""\n    return x\n'
PARENT = next(source.parse_functions(START))


def parse(text: str, version: int = 2) -> str:
    return mutation_engine.parse_response(text, PARENT, version)


EXPECTED = 'def f(x, n=2):\n    """Grows."""\n    y = x * n  # doubled\n    return y\n'
BODY = "    y = x * n  # doubled\n    return y\n"


@pytest.mark.parametrize(
    "text",
    [
        f"```python\ndef f_v2(x, n=2):\n{BODY}```",
        f"Sure! Here it is:\n```python\ndef f_v2(x, n=2):\n    '''Improved.'''\n{BODY}```\nIt is better.",
        f"def f_v2(x, n=2):\n{BODY}",
        f"def f(x, n=2):\n{BODY}",
        f"def f_v1(x, n=2):\n    return x\n\ndef f_v2(x, n=2):\n{BODY}",
        f"def f_v2(x: float, n: int = 7) -> float:\n{BODY}",
        BODY,
        "y = x * n  # doubled\nreturn y",
        f"```python\n{BODY}```",
        f"def f_v2(x, n=2):\n{BODY}This function is better (because it doubles",
        f"def improved(x, n=2):\n{BODY}",
    ],
    ids=[
        "a fence",
        "chatter and a docstring",
        "no fence",
        "the plain name",
        "an older version beside it",
        "types of its own",
        "a body",
        "a body without indentation",
        "a body in a fence",
        "prose after it",
        "a name of its own",
    ],
)
def test_parsed_function_gets_header_and_docstring_of_parent(text):
    assert parse(text) == EXPECTED


def test_recursive_call_is_renamed():
    text = parse("def f_v2(x, n=2):\n    return x if n == 0 else f_v2(x, n - 1)")
    assert "return x if n == 0 else f(x, n - 1)" in text


def test_imports_and_helpers_move_into_body():
    text = parse("import math\n\ndef half(z):\n    return z / 2\n\ndef f_v2(x, n=2):\n    return half(math.sin(x))")
    names: dict[str, object] = {}
    exec(text, names)
    assert names["f"](0.0) == 0.0  # type: ignore[operator]
    assert set(names) == {"f", "__builtins__"}


def test_constants_and_classes_move_into_body_without_future_imports():
    text = (
        "from __future__ import annotations\nfrom math import *\nimport math\nRATE: float = 2.0\nNOTE = '''a\n  b'''\n"
        "class Box:\n    size = 3\n\ndef half(z):\n    return z / 2\n\n"
        "def f_v2(x, n=2):\n    return half(x) * RATE + Box.size + len(NOTE)\n"
    )
    names: dict[str, object] = {}
    exec(parse(text), names)
    assert names["f"](4.0) == 12.0  # type: ignore[operator]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "~" * 4000 + "`\n",
        "```" + "a" * 8000 + "`",
        "```python\n" + "@a\n" * 2000 + "```",
        "x = (\n" * 5000,
        "\\\n" * 5000,
    ],
    ids=["tildes", "a long label", "decorators", "brackets", "continuations"],
)
def test_invalid_response_is_rejected_fast(text):
    with pytest.raises(ValueError, match="response"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no function"),
        ("I would rather talk about the weather.", "has no function"),
        ("```python\nx = 3\n```", "has no function"),
        ("def f_v2(x):\n    return x", r"takes \(x\), not \(x, n\)"),
        ("def f_v2(x, n=2):\n    return f_v1(x) + 1", "calls f_v1"),
        ("def f_v2(x, n=2):\n    return f_v0(x)", "calls f_v0"),
        ("\0", "has no function"),
    ],
)
def test_invalid_response_is_rejected_with_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse(text)
