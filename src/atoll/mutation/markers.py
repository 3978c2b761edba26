"""EVOLVE-BLOCK markers: what stands between them may change, and nothing else."""

import re
from collections.abc import Sequence

_BLOCK = re.compile(r"^[^\n]*EVOLVE-BLOCK-START[^\n]*\n(.*?)^[^\n]*EVOLVE-BLOCK-END", re.M | re.S)


def spliced(parent: str, child: str) -> str:
    """Returns the parent with the blocks of the child; without markers in the parent, the child as it is.

    Raises:
        ValueError: The child has not as many blocks as the parent.
    """
    old, new = list(_BLOCK.finditer(parent)), [found[1] for found in _BLOCK.finditer(child)]
    if not old:
        return child
    if len(new) != len(old):
        raise ValueError(f"the reply has {len(new)} EVOLVE-BLOCKs and the program has {len(old)}: keep all markers.")
    parts, end = list[str](), 0
    for found, body in zip(old, new, strict=True):
        parts += [parent[end : found.start(1)], body]
        end = found.end(1)
    return "".join([*parts, parent[end:]])


def evolving(text: str) -> Sequence[tuple[int, int]]:
    """Returns the lines between markers, as (first, end) counted from 0; without markers, all of them."""
    blocks = [(found.start(1), found.end(1)) for found in _BLOCK.finditer(text)]
    spans = [(text.count("\n", 0, start), text.count("\n", 0, end)) for start, end in blocks]
    return spans or [(0, text.count("\n") + 1)]
