"""What the model is asked: the best functions as versions, worst first, and the header of the next one."""

from collections.abc import Sequence

from atoll.llmsr.source import Source

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


def version(name: str, number: int) -> str:
    """Returns the name under which a version stands in a prompt."""
    return f"{name}_v{number}"


def make(sources: Sequence[Source], comment: str, docstring: str) -> str:
    """Returns the prompt for the next version after these, which come worst first."""
    name = sources[0].name
    shown = [
        source.renamed(version(name, number)).with_docstring(_improved(name, number))
        for number, source in enumerate(sources)
    ]
    start, following = sources[0].renamed(version(name, len(sources))), _improved(name, len(sources))
    shown.append(f"{start.header}\n{start.indent}{following}")
    return TEMPLATE.format(
        comment=comment.strip(),
        docstring=docstring,
        name=version(name, len(sources)),
        last=version(name, len(sources) - 1),
        versions="\n\n".join(shown),
    )


def _improved(name: str, number: int) -> str:
    return f'"""Improved version of `{version(name, number - 1)}`."""' if number else ""
