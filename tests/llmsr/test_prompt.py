"""What the model is shown, letter by letter."""

from atoll.llmsr import mutation_engine, source

LINEAR = '''\
def equation(x, v, params):
    """Acceleration of an oscillator.

    Args:
        x: Position.
    """
    # a plain start
    return params[0] * x + params[1] * v
'''
CUBIC = '''\
def equation(x, v, params):
    """Acceleration of an oscillator.

    Args:
        x: Position.
    """
    if len(x) == 0:
        return equation(np.zeros(1), v, params)
    return params[0] * x ** 3 + params[1] * v
'''
GOLDEN = '''\
You improve one Python function step by step. Find the law of the motion.

Its documentation, which stays as it is:
"""
Acceleration of an oscillator.

Args:
    x: Position.
"""

The versions below are ordered from worse to better. Write equation_v2, which should score higher than equation_v1: \
keep the arguments, change the structure and not only the numbers, and call no other version.

```python
def equation_v0(x, v, params):
    # a plain start
    return params[0] * x + params[1] * v


def equation_v1(x, v, params):
    """Improved version of `equation_v0`."""
    if len(x) == 0:
        return equation_v1(np.zeros(1), v, params)
    return params[0] * x ** 3 + params[1] * v


def equation_v2(x, v, params):
    """Improved version of `equation_v1`."""
```

Answer with the complete function equation_v2 in one ```python block and nothing else.
'''


def sources(*texts: str) -> list[source.Source]:
    return [next(source.parse_functions(text)) for text in texts]


def test_two_versions_and_the_header_of_the_third():
    (first, second) = sources(LINEAR, CUBIC)
    assert mutation_engine.build_prompt([first, second], "Find the law of the motion.\n", first.docstring) == GOLDEN


def test_one_version_and_the_header_of_the_second():
    (first,) = sources(LINEAR)
    made = mutation_engine.build_prompt([first], "", first.docstring)
    assert "Write equation_v1, which should score higher than equation_v0" in made
    assert 'def equation_v1(x, v, params):\n    """Improved version of `equation_v0`."""\n```' in made
    assert "equation_v2" not in made


def test_braces_and_backslashes_of_a_user_stand_as_they_are():
    (first,) = sources('def f(x):\n    """Maps {x} to \\\\d."""\n    return {"a": x}\n')
    made = mutation_engine.build_prompt([first], "Use {braces} and {0}.", first.docstring)
    assert "Use {braces} and {0}." in made
    assert "Maps {x} to \\d." in made
    assert 'return {"a": x}' in made
