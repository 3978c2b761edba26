"""Share of real LLM responses that become a candidate, by Atoll's reader, its old rule and OpenEvolve's parser.

    scripts/bench replies --data ../shared/data/replies

Each line of the data has a prompt with the parent program and the response to it. A candidate is usable if it differs
from its parent, compiles and defines the functions that the caller needs. A response holds a program if some part of it
between fences or delimiters does so by itself, or if it has an edit whose SEARCH lines are in the parent.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from atoll import mutation
from bench import outcome

PEERS = True
PEER_PYTHON = Path(".venv-peers/bin/python")
_BOUNDARY = re.compile(r"\s*(```|~~~|<{5,}|={5,}\s*$|>{5,})")
_MAX_BOUNDARIES = 30


class Reply(NamedTuple):
    """Response of an LLM with the program in its prompt."""

    task: str
    parent: str
    text: str
    asks_for_edits: bool

    def is_usable(self, program: str | None) -> bool:
        if program is None:
            return False
        names, parent = get_facts(self.parent)
        if any(f"def {name}" not in program and f"class {name}" not in program for name in names):
            return False
        try:
            tree = ast.parse(program)
        except (SyntaxError, ValueError, RecursionError):
            return False
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        return names <= defined and ast.dump(tree) != parent


@cache
def get_facts(parent: str) -> tuple[set[str], str]:
    """Returns the names that the caller of a program needs, and its syntax tree."""
    return set(mutation.find_required_names(parent)), ast.dump(ast.parse(parent))


def read_replies(folder: Path) -> list[Reply]:
    replies = list[Reply]()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            section = row["prompt"].rsplit("\n# Current Program\n", 1)[-1]
            parent = re.search(r"^(`{3,})python\n(.*?\n)\1$", section, re.S | re.M)
            if parent is not None:
                asks_for_edits = "<<<<<<< SEARCH" in row["prompt"].rsplit("# Your answer", 1)[-1]
                replies.append(Reply(row["task"], parent[2], row["reply"], asks_for_edits))
    return replies


def holds_program(reply: Reply) -> bool:
    """Whether a response has a complete program or an applicable edit, found without the reader."""
    lines = reply.text.split("\n")
    cuts = [-1, *(index for index, line in enumerate(lines) if _BOUNDARY.match(line)), len(lines)][:_MAX_BOUNDARIES]
    for number, first in enumerate(cuts):
        for end in cuts[number + 1 :]:
            if reply.is_usable("\n".join(lines[first + 1 : end]) + "\n"):
                return True
    words = " ".join(reply.parent.split())
    return any(
        " ".join(block.search.split()) in words and block.search.split() != block.replace.split()
        for block in mutation.parse_blocks(reply.text)
        if block.search.strip()
    )


def read_with_atoll(reply: Reply) -> str | None:
    try:
        return mutation.ResponseReader().read(reply.parent, reply.text).text
    except mutation.UnusableResponse:
        return None


def read_as_before(reply: Reply) -> str | None:
    """The rule of version 0.1: unique SEARCH lines, or the first fence with all markers."""
    if blocks := mutation.parse_blocks(reply.text):
        program = reply.parent
        for block in blocks:
            if program.count(block.search) == 1 and block.search.strip():
                program = program.replace(block.search, block.replace)
        return program if program != reply.parent else None
    fences = re.findall(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", reply.text, re.S | re.M)
    own_texts: list[str] = [text for label, text in fences if label.lower() in ("python", "py")]
    texts: list[str] = own_texts or [text for _, text in fences]
    if not texts:
        return None
    marker = re.compile(r"(EVOLVE-BLOCK-START[^\n]*\n)(.*?)([^\n]*EVOLVE-BLOCK-END)", re.S)
    contents = [match[2] for match in marker.finditer(texts[0])]
    if not marker.search(reply.parent):
        return texts[0]
    if len(contents) != len(marker.findall(reply.parent)):
        return None
    remaining = iter(contents)
    return marker.sub(lambda match: match[1] + next(remaining) + match[3], reply.parent)


def read_with_openevolve(replies: Sequence[Reply]) -> list[str | None]:
    """Asks OpenEvolve's own parser, in its environment."""
    rows = [[reply.parent, reply.text, reply.asks_for_edits] for reply in replies]
    process = subprocess.run(
        [str(PEER_PYTHON), "-c", _PEER], input=json.dumps(rows), capture_output=True, text=True, check=True
    )
    programs: list[str | None] = json.loads(process.stdout.splitlines()[-1])
    return programs


_PEER = """
import json, sys
from openevolve.utils.code_utils import apply_diff, extract_diffs, parse_full_rewrite
programs = []
for parent, text, asks_for_edits in json.load(sys.stdin):
    try:
        if asks_for_edits:
            programs.append(apply_diff(parent, text) if extract_diffs(text) else None)
        else:
            programs.append(parse_full_rewrite(text, "python") or None)
    except Exception:  # there it ends the iteration
        programs.append(None)
print(json.dumps(programs))
"""


def rate(replies: Sequence[Reply], programs: Mapping[str, Sequence[str | None]]) -> Iterator[list[object]]:
    """Yields a row per task: responses, those that hold a program, and the usable ones of each reader."""
    held = [holds_program(reply) for reply in replies]
    for task in [*sorted({reply.task for reply in replies}), "all"]:
        indices = [index for index, reply in enumerate(replies) if task in (reply.task, "all")]
        total_held = sum(held[index] for index in indices)
        row: list[object] = [task, len(indices), total_held]
        for texts in programs.values():
            usable = [index for index in indices if replies[index].is_usable(texts[index])]
            read = sum(held[index] for index in usable)
            row += [f"{len(usable) / len(indices):.0%}", f"{read / max(1, total_held):.0%}"]
        yield row


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True, help="folder with .jsonl files of responses")
    parser.add_argument("--no-peers", action="store_true", help="without OpenEvolve")
    parser.add_argument("--show-lost", type=int, default=0, help="print so many responses that hold a program and fail")
    options = parser.parse_args(arguments)
    replies = read_replies(options.data)
    if not replies:
        sys.exit(f"{options.data} has no responses. Pass a folder with .jsonl files.")
    started = time.process_time()
    readers: dict[str, Callable[[Reply], Any]] = {"Atoll": read_with_atoll, "Atoll 0.1": read_as_before}
    programs: dict[str, Sequence[str | None]] = {"Atoll": [read_with_atoll(reply) for reply in replies]}
    seconds = time.process_time() - started
    programs |= {name: [read(reply) for reply in replies] for name, read in readers.items() if name not in programs}
    if not options.no_peers:
        programs["OpenEvolve 0.4.0"] = read_with_openevolve(replies)
    show_lost(replies, programs["Atoll"], options.show_lost)
    columns = ["task", "responses", "with a program"]
    for name in programs:
        columns += [f"{name}: usable", f"{name}: of those with a program"]
    outcome.keep(
        "replies",
        {"Responses that become a candidate": (columns, list(rate(replies, programs)))},
        [f"Reading took {1000 * seconds / len(replies):.1f} ms of CPU time per response."],
    )


def show_lost(replies: Sequence[Reply], programs: Sequence[str | None], count: int) -> None:
    lost = [r for r, p in zip(replies, programs, strict=True) if not r.is_usable(p) and holds_program(r)]
    for reply in lost[:count]:
        try:
            failure = f"not usable: {mutation.ResponseReader().read(reply.parent, reply.text).notes}"
        except mutation.UnusableResponse as error:
            failure = str(error)
        print(f"{'=' * 20} {reply.task}: {failure}\n{reply.text}\n")


if __name__ == "__main__":
    main()
