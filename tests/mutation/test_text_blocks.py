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
        ("```python\n\n    x = 1\n\n\n```", "\n    x = 1\n"),
        ("```python\ns = '```'\n```", "s = '```'\n"),
        ("no program here", None),
        ("`x = 1`", None),
        ("```x = 1```", None),
        ("", None),
    ],
)
def test_fenced_block_is_found(response, program):
    blocks = mutation.iter_fenced_blocks(mutation.clean_response(response))
    assert [block.text for block in blocks] == ([program] if program is not None else [])


def test_missing_closing_fence_ends_at_next_label():
    response = "```bash\npip install y\n```python\nx = 1\n```"
    assert list(mutation.iter_fenced_blocks(response)) == [("bash", "pip install y\n"), ("python", "x = 1\n")]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("Be brief.", "Be brief."),
        ("Here it is:\n```text\nBe brief.\n```\nDone.", "Be brief.\n"),
        ("<think>Hm.</think>\n```\nBe brief.\n```", "Be brief.\n"),
        ("````text\nUse:\n```python\nx\n```\nThen stop.\n````", "Use:\n```python\nx\n```\nThen stop.\n"),
        ("```text\nUse:\n```python\nx\n```\nThen stop.\n```", "Use:\n```python\nx\n```\nThen stop.\n"),
        (
            "Long. " * 100 + "\n```\nx\n```\n" + "More. " * 100,
            "Long. " * 100 + "\n```\nx\n```\n" + ("More. " * 100).strip(),
        ),
    ],
)
def test_extract_text_takes_main_block_or_everything(response, text):
    assert mutation.extract_text(response) == text


@given(some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1))
def test_fence_roundtrip(text):
    response = mutation.clean_response(f"Some words.\n{mutation.fence(text, 'python')}\nMore ``` words.")
    [block] = mutation.iter_fenced_blocks(response, is_nested=True)
    assert block.text.rstrip() == text.rstrip()
