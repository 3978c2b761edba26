"""Complete prompt of PyMutationEngine."""

from atoll import llm
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

Keep its documentation unchanged:
"""
Acceleration of an oscillator.

Args:
    x: Position.
"""

The versions below are ordered from worse to better. Write equation_v2, which should score higher than equation_v1. \
Keep the arguments. Change the structure, not only the numbers. Do not call another version.

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

Answer with the complete function equation_v2 in one ```python block. Write nothing else.
'''


def parse_sources(*texts: str) -> list[source.Source]:
    return [next(source.parse_functions(text)) for text in texts]


def test_prompt_with_two_versions():
    (first, second) = parse_sources(LINEAR, CUBIC)
    prompt = mutation_engine.build_prompt([first, second], "Find the law of the motion.\n", first.docstring)
    assert prompt == GOLDEN
    (system_role, system_text), (user_role, user_text) = llm.get_messages(prompt)
    assert (system_role, user_role) == ("system", "user")
    assert "Find the law of the motion." in system_text
    assert user_text.startswith("The versions below")


def test_prompt_with_one_version():
    (first,) = parse_sources(LINEAR)
    prompt = mutation_engine.build_prompt([first], "", first.docstring)
    assert "Write equation_v1, which should score higher than equation_v0" in prompt
    assert 'def equation_v1(x, v, params):\n    """Improved version of `equation_v0`."""\n```' in prompt
    assert "equation_v2" not in prompt


def test_prompt_keeps_braces_and_backslashes():
    (first,) = parse_sources('def f(x):\n    """Maps {x} to \\\\d."""\n    return {"a": x}\n')
    prompt = mutation_engine.build_prompt([first], "Use {braces} and {0}.", first.docstring)
    assert "Use {braces} and {0}." in prompt
    assert "Maps {x} to \\d." in prompt
    assert 'return {"a": x}' in prompt


def test_prompt_states_scores_with_enough_digits():
    (first, second) = parse_sources(LINEAR, CUBIC)
    prompt = mutation_engine.build_prompt([first, second], "", first.docstring, [-1.23456789, -1.23456712])
    assert 'def equation_v0(x, v, params):\n    """Score -1.23456789."""\n' in prompt
    assert '"""Improved version of `equation_v0`. Score -1.23456712."""' in prompt
    assert prompt.count("Score") == 2
