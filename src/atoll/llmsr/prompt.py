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


def format_version_name(name: str, index: int) -> str:
    """Returns the name under which a version stands in a prompt."""
    return f"{name}_v{index}"


def build_prompt(sources: Sequence[Source], comment: str, docstring: str) -> str:
    """Returns the prompt for the next version after these, which come worst first."""
    name = sources[0].name
    versions = [
        source.rename(format_version_name(name, index)).with_docstring(_format_docstring(name, index))
        for index, source in enumerate(sources)
    ]
    next_source, next_docstring = sources[0].rename(format_version_name(name, len(sources))), _format_docstring(name, len(sources))
    versions.append(f"{next_source.header}\n{next_source.indent}{next_docstring}")
    return TEMPLATE.format(
        comment=comment.strip(),
        docstring=docstring,
        name=format_version_name(name, len(sources)),
        last=format_version_name(name, len(sources) - 1),
        versions="\n\n".join(versions),
    )


def _format_docstring(name: str, index: int) -> str:
    return f'"""Improved version of `{format_version_name(name, index - 1)}`."""' if index else ""
