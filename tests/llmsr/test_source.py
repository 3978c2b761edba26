"""Source of a function in parts."""

import functools

import pytest

from atoll import errors
from atoll.llmsr import source

TEXT = '''\
import numpy as np

LIMIT = 3


@np.vectorize
def slow(x: float,
         y=3) -> float:
    # Why it is so.
    """Says what it does.

    More: "quoted".
    """
    # kept
    z = slow(x)  # slow, naïve

    if z:
        return """
slow
"""
    return z + slow.cache


def short(x): return short(x - 1)


def empty(x):
    """Only this."""


async def waits(x):
    return x


half = lambda x: x / 2
'''


def get_source(name: str) -> source.Source:
    return next(item for item in source.parse_functions(TEXT) if item.name == name)


def test_function_is_split_into_parts():
    slow = get_source("slow")
    assert slow.header == "def slow(x: float,\n         y=3) -> float:"
    assert slow.docstring == 'Says what it does.\n\nMore: "quoted".'
    assert slow.body.startswith("    # kept\n    z = slow(x)")
    assert slow.arguments == ("x", "y")


def test_text_is_complete_except_comments_before_docstring():
    expected = TEXT[TEXT.index("def slow") : TEXT.index("\n\ndef short")]
    assert get_source("slow").text == expected.replace("    # Why it is so.\n", "")


def test_rename_changes_only_code():
    renamed = get_source("slow").rename("fast")
    assert "def fast(x: float," in renamed.text
    assert "z = fast(x)  # slow, naïve" in renamed.text
    assert 'return """\nslow\n"""' in renamed.text
    assert "return z + fast.cache" in renamed.text


def test_one_line_function_is_split():
    assert get_source("short").rename("again").text == "def again(x):\n    return again(x - 1)\n"


def test_body_with_only_docstring_gets_pass():
    assert get_source("empty").with_docstring("") == "def empty(x):\n    pass\n"


def test_source_of_nested_function():
    def inner(x):
        """Doubles."""
        return x * 2

    assert source.get_function_source(inner).text == 'def inner(x):\n    """Doubles."""\n    return x * 2\n'


async def coroutine(x):
    return x


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, "is a lambda. Write it with 'def'"),
        (len, "is of type builtin_function_or_method. Pass a function defined with 'def'"),
        (functools.partial(print), "is of type partial"),
        (coroutine, "is not defined with a plain 'def'"),
        (eval("lambda x: x"), "is a lambda"),
    ],
)
def test_other_objects_are_rejected(value, message):
    with pytest.raises(errors.SetupError, match=r"[.]$") as caught:
        source.get_function_source(value)
    assert message in str(caught.value)


def test_function_without_file_is_rejected():
    names: dict[str, object] = {}
    exec("def typed(x):\n    return x", names)
    with pytest.raises(errors.SetupError, match="Define it in a file"):
        source.get_function_source(names["typed"])  # type: ignore[arg-type]


class TestLoadFunctionSource:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "task.py"
        path.write_text(TEXT, encoding="utf-8")
        return path

    def test_file_is_not_run(self, file):
        file.write_text("raise SystemExit\n" + TEXT, encoding="utf-8")
        assert source.load_function_source(file, "short").text == "def short(x):\n    return short(x - 1)\n"

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("half", "is a lambda"),
            ("missing", "does not define the function missing"),
            ("waits", "does not define the function waits"),
        ],
    )
    def test_missing_function_is_rejected(self, file, name, message):
        with pytest.raises(errors.SetupError, match=message):
            source.load_function_source(file, name)

    def test_missing_or_invalid_file_is_rejected(self, file):
        with pytest.raises(errors.SetupError, match="cannot be read"):
            source.load_function_source(file.parent / "other.py", "f")
        for text in ("def f(:", "x = '\0'"):
            file.write_text(text)
            with pytest.raises(errors.SetupError, match="is not valid Python"):
                source.load_function_source(file, "f")
