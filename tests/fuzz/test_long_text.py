"""Parsers of LLM responses take time linear in the length of the text."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from atoll import mutation, secret_scanner
from atoll.llm import json_output
from atoll.mind import prompts
from atoll.mind.tasks import calendars, meeting, stegpoet, trip
from atoll.mutation import text_blocks
from atoll.programs import parameter_search
from atoll.programs.evaluation import llm_review

SIZE = 400_000  # characters; a reply may have ten times as many
MOST_SECONDS = 2.0  # of the processor: now 0.2 at most; by the square of its length each took 2, most of them minutes

PROGRAM = "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n"
TUNABLES = parameter_search.parse_tunables({"rate": (0.5, 0.0, 1.0)})
POEM = stegpoet.Poem("s", "", (10, 20), 3)
DAY = meeting.Day("m", "", "Pier", 540, {"Ann": meeting.Friend("Ann", "Pier", 540, 600, 30)}, {})


class Case(NamedTuple):
    """A reader, and a text that has kept one like it busy."""

    read: Callable[[str], Any]
    text: str


def repeated(unit: str) -> str:
    return unit * (SIZE // len(unit))


def numbered(line: str) -> str:
    """Returns a line again and again, each with a word of its own instead of NAME."""
    words = (
        f"{number:05d}".translate(str.maketrans("0123456789", "abcdefghij")) for number in range(SIZE // len(line))
    )
    return "".join(line.replace("NAME", word) for word in words)


def read_text(text: str) -> Any:
    return mutation.ResponseReader("text").read("Answer.", text)


def read_parameters(text: str) -> Any:
    return parameter_search.ParameterReader(tunables=TUNABLES).read('{"rate": 0.5}', text)


def read_program(text: str) -> Any:
    return mutation.ResponseReader().read(PROGRAM, text)


CASES = {
    "blocks that do not end": Case(read_program, repeated("# EVOLVE-BLOCK-START\n")),
    "fences": Case(read_program, repeated("```python\ndef f(x):\n    return 1\n```\n")),
    "fences that do not end": Case(read_program, repeated("```python\n")),
    "reasoning that does not end": Case(read_program, repeated("<think>")),
    "reasoning": Case(read_program, repeated("<think></think>")),
    "edits of nothing": Case(read_program, repeated("<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n")),
    "headings of edits": Case(read_program, repeated("SEARCH\n```\nx\n```\nREPLACE\n```\ny\n```\n")),
    "hunks": Case(read_program, repeated("@@\n-x\n+y\n")),
    "omitted lines": Case(read_program, repeated("# ... rest unchanged\n")),
    "brackets": Case(read_program, repeated("(")),
    "definitions of nothing": Case(read_program, repeated("def f(\n")),
    "one long line": Case(read_program, "def f(x): return " + repeated("1+") + "1"),
    "JSON of brackets": Case(read_program, "{" + repeated('"a":[')),
    "many blocks": Case(text_blocks.find_evolving_spans, repeated(PROGRAM)),
    "empty lines before a text": Case(read_text, repeated("\n") + "So:\n```text\nBe exact.\n```"),
    "objects that do not end": Case(read_parameters, repeated('{"a":')),
    "objects without parameters": Case(read_parameters, repeated("{}")),
    "JSON in a fence of empty lines": Case(lambda text: list(json_output.extract_json(text)), "```" + repeated("\n")),
    "a review in a fence of empty lines": Case(llm_review.parse_review, "```" + repeated("\n")),
    "a code of empty lines": Case(POEM.parse_plan, repeated("\n") + "TEXT: rain"),
    "a code of many words": Case(POEM.evaluate, numbered("10 -> NAME\n") + "TEXT: rain"),
    "a text of many code words": Case(POEM.parse_trace, "10 -> rain\nTEXT:\n" + repeated("rain\n")),
    "critics that do not end": Case(prompts.extract_critique, repeated("<critic>")),
    "critics before a plan": Case(lambda text: prompts.read_plan(POEM, text), repeated("<critic>")),
    "stays on one line": Case(trip.parse_stays, repeated("Day 1-2: Visit ")),
    "days of nothing": Case(trip.parse_stays, repeated("Day 1 ")),
    "spaces in a plan": Case(trip.parse_stays, "Day 1" + repeated(" ") + "Visit Rome"),
    "times on one line": Case(calendars.parse_slot, repeated("Monday 9:00 ")),
    "ways on one line": Case(DAY.parse_plan, repeated("travel to ")),
    "meetings that do not end": Case(DAY.parse_plan, repeated("You meet ")),
    "meetings on one line": Case(DAY.parse_trace, repeated("You meet ")),
    "many meetings": Case(DAY.evaluate, numbered("You meet NAME for 1 minutes from 9:00AM to 9:01AM.\n")),
    "keys that do not end": Case(
        lambda text: secret_scanner.find_secrets(text, {}), repeated("-----BEGIN PRIVATE KEY-----")
    ),
    "keys to be hidden": Case(secret_scanner.redact, repeated("-----BEGIN PRIVATE KEY-----")),
    "many secrets": Case(lambda text: secret_scanner.find_secrets(text, {}), repeated("token='abcd1234'\n")),
    "tokens that do not end": Case(secret_scanner.redact, repeated("eyJ-")),
    "names of secrets before a call": Case(secret_scanner.redact, repeated("password=") + "("),
}


@pytest.mark.parametrize("name", CASES)
def test_parsers_take_linear_time(name):
    read, text = CASES[name]
    for _ in range(3):  # on a busy machine the same work can take several times the CPU time
        since = time.process_time()
        with contextlib.suppress(ValueError):
            read(text)
        seconds = time.process_time() - since
        if seconds < MOST_SECONDS:
            break
    assert seconds < MOST_SECONDS
