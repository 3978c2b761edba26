"""Fenced blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from atoll import mutation

PROGRAM = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Sure!\n\n```py\nx = 1\n```\nHope it helps.", "x = 1\n"),
        ("```Python3 title=a.py\nx = 1\n```", "x = 1\n"),
        ("```{.python}\nx = 1\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("~~~python\nx = 1\n~~~", "x = 1\n"),
        ("````python\n```\nx = 1\n````", "```\nx = 1\n"),
        ("```python\nx = 1", "x = 1\n"),
        ("```python\r\nx = 1\r\ny = 2\r\n```\r\n", "x = 1\ny = 2\n"),
        ("1. so:\n   ```python\n   if x:\n       y = 1\n   ```\n", "if x:\n    y = 1\n"),
        ("\t```python\n\tx = 1\n\t```", "x = 1\n"),
        ("```python\nx = 1\n```\n```python\nx = 2\n```", "x = 1\n"),
        ("```bash\npip install y\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("```\nan example\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("```python\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("```python\n\n    x = 1\n\n\n```", "\n    x = 1\n"),
        ("```python\ns = '```'\n```", "s = '```'\n"),
        ("no program here", None),
        ("`x = 1`", None),
        ("```python\n```", None),
        ("```x = 1```", None),
        ("", None),
    ],
)
def test_extract_code_finds_program(response, program):
    assert mutation.extract_code(response) == program


def test_extract_code_selects_language():
    response = "```python\nx = 1\n```\n```rs\nfn main() {}\n```\n```c\nint x;\n```"
    assert mutation.extract_code(response, "rust") == "fn main() {}\n"
    assert mutation.extract_code(response, "C") == "int x;\n"
    assert mutation.extract_code(response, "go") == "x = 1\n"


@given(some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1))
def test_fence_roundtrip(text):
    program = mutation.extract_code(f"Some words.\n{mutation.fence(text, 'python')}\nMore ``` words.")
    assert (program or "").rstrip() == text.rstrip()


@given(some.text())
def test_extract_code_accepts_any_response(response):
    program = mutation.extract_code(response)
    assert program is None or program.strip()
