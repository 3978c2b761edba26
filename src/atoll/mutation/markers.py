"""EVOLVE-BLOCK markers: what stands between them may change, and nothing else."""

from collections.abc import Sequence

_START, _END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


def splice(parent: str, child: str) -> str:
    """Returns the parent with the blocks of the child; without markers in the parent, the child as it is.

    Raises:
        ValueError: The child has not as many blocks as the parent.
    """
    old_lines, new_lines = parent.split("\n"), child.split("\n")
    old, new = _find_evolve_blocks(old_lines), _find_evolve_blocks(new_lines)
    if not old:
        return child
    if len(new) != len(old):
        raise ValueError(f"the reply has {len(new)} EVOLVE-BLOCKs and the program has {len(old)}: keep all markers.")
    lines, position = list[str](), 0
    for (first, end), (new_first, new_end) in zip(old, new, strict=True):
        lines += [*old_lines[position:first], *new_lines[new_first:new_end]]
        position = end
    return "\n".join([*lines, *old_lines[position:]])


def find_evolving_spans(text: str) -> Sequence[tuple[int, int]]:
    """Returns the lines between markers, as (first, end) counted from 0; without markers, all of them."""
    lines = text.split("\n")
    return _find_evolve_blocks(lines) or [(0, len(lines))]


def _find_evolve_blocks(lines: Sequence[str]) -> Sequence[tuple[int, int]]:
    """Returns the lines between each START and the next END; a block that does not end is none.

    One pass: a reply of many STARTs without an END would keep a search from each of them busy for minutes.
    """
    blocks, first = list[tuple[int, int]](), 0
    for index, line in enumerate(lines):
        if not first and _START in line:
            first = index + 1
        elif first and _END in line:
            blocks.append((first, index))
            first = 0
    return blocks
