"""A function's source in parts, and put together again."""

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


def of(name: str) -> source.Source:
    return next(each for each in source.parse_functions(TEXT) if each.name == name)


def test_a_function_is_cut_into_header_docstring_and_body_without_its_decorators():
    slow = of("slow")
    assert slow.header == "def slow(x: float,\n         y=3) -> float:"
    assert slow.docstring == 'Says what it does.\n\nMore: "quoted".'
    assert slow.body.startswith("    # kept\n    z = slow(x)")
    assert slow.arguments == ("x", "y")


def test_its_text_has_everything_in_it_but_comments_before_the_docstring():
    expected = TEXT[TEXT.index("def slow") : TEXT.index("\n\ndef short")]
    assert of("slow").text == expected.replace("    # Why it is so.\n", "")


def test_another_name_reaches_its_own_calls_and_no_text_or_comment():
    renamed = of("slow").rename("fast")
    assert "def fast(x: float," in renamed.text
    assert "z = fast(x)  # slow, naïve" in renamed.text
    assert 'return """\nslow\n"""' in renamed.text
    assert "return z + fast.cache" in renamed.text


def test_a_function_on_one_line_gets_lines_of_its_own():
    assert of("short").rename("again").text == "def again(x):\n    return again(x - 1)\n"


def test_a_body_that_is_only_a_docstring_passes():
    assert of("empty").with_docstring("") == "def empty(x):\n    pass\n"


def test_a_nested_function_is_found_from_the_live_object():
    def inner(x):
        """Doubles."""
        return x * 2

    assert source.get_function_source(inner).text == 'def inner(x):\n    """Doubles."""\n    return x * 2\n'


async def coroutine(x):
    return x


@pytest.mark.parametrize(
    ("thing", "sentence"),
    [
        (lambda x: x, "is a lambda; write it with 'def'"),
        (len, "is a builtin_function_or_method: give a function defined with 'def'"),
        (functools.partial(print), "is a partial"),
        (coroutine, "is not defined with a plain 'def'"),
        (eval("lambda x: x"), "is a lambda"),
    ],
)
def test_what_is_no_plain_function_is_refused_in_one_sentence(thing, sentence):
    with pytest.raises(errors.SetupError, match=r"[.]$") as caught:
        source.get_function_source(thing)
    assert sentence in str(caught.value)


def test_a_function_without_a_file_is_refused():
    names: dict[str, object] = {}
    exec("def typed(x):\n    return x", names)
    with pytest.raises(errors.SetupError, match="define it in a file"):
        source.get_function_source(names["typed"])  # type: ignore[arg-type]


class TestOfFile:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "task.py"
        path.write_text(TEXT, encoding="utf-8")
        return path

    def test_a_function_is_read_without_running_the_file(self, file):
        file.write_text("raise SystemExit\n" + TEXT, encoding="utf-8")
        assert source.load_function_source(file, "short").text == "def short(x):\n    return short(x - 1)\n"

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [("half", "is a lambda"), ("missing", "defines no function missing"), ("waits", "defines no function waits")],
    )
    def test_what_it_does_not_define_is_named(self, file, name, sentence):
        with pytest.raises(errors.SetupError, match=sentence):
            source.load_function_source(file, name)

    def test_a_file_that_is_missing_or_no_python_is_named(self, file):
        with pytest.raises(errors.SetupError, match="cannot be read"):
            source.load_function_source(file.parent / "other.py", "f")
        for text in ("def f(:", "x = '\0'"):
            file.write_text(text)
            with pytest.raises(errors.SetupError, match="is no Python"):
                source.load_function_source(file, "f")
