"""Parsers of untrusted text return a result or raise a documented error.

Replies, diffs, settings, checkpoints, logs, skills, playbooks, decisions, tables: one row each. A parser may return
what it likes, or raise what its row names; anything else is a fault. `tests/dashboard` does the same to the API.
"""

import contextlib
import json
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import msgspec
import pytest

from atoll import config, errors, mutation
from atoll.governed.agent.skills import skill_md as skills
from atoll.governed.approval import deciders
from atoll.governed.evidence import feedback, log_stores, replay_report
from atoll.governed.evidence import logs as evidence_logs
from atoll.governed.parameters import file_layout
from atoll.llm import command_line, json_output
from atoll.llmsr import mutation_engine, source
from atoll.llmsr.fit import parsing
from atoll.llmsr.laws import table
from atoll.mind.tasks import load, meeting, stegpoet, trip
from atoll.mind.workspace import edits
from atoll.playbook import files as bullets
from atoll.playbook import files as playbooks
from atoll.programs.openevolve import checkpoints
from atoll.store.versions import audit
from atoll.survival import analysis
from tests.cli import tasks
from tests.fuzz import garbling
from tests.repetitions import choose

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Parser(NamedTuple):
    """A reader of foreign text.

    Attributes:
        read: Takes the text.
        samples: Texts that it likes.
        refuses: What it may raise; `AtollError` always.
    """

    read: Callable[[str], Any]
    samples: Sequence[str]
    refuses: tuple[type[Exception], ...] = ()


def in_file(name: str, read: Callable[[Path], Any], *beside: tuple[str, str]) -> Callable[[str], Any]:
    """Turns a reader of files into a reader of texts. Also passes bytes that are not UTF-8."""

    def read_text(text: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            for other, body in beside:
                (Path(folder) / other).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / other).write_text(body)
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            return read(path)

    return read_text


(PARENT,) = source.parse_functions('def line(x: float) -> float:\n    """Returns the height."""\n    return x\n')
REPLY = "Here:\n```python\ndef line_v1(x):\n    return 2 * x + 1\n```\nI think so."
DIFF = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE"
ENTRY = '{"timestamp":"2030-01-01T00:00:00Z","decision_id":"d1","entity":"ann","payload":{"words":3}}'
START = datetime(2030, 1, 1, tzinfo=UTC)
REPORT = '{"timestamp":"2030-01-01T00:00:00Z","entity":"ann","metric":"joy","value":0.5}'
PROGRAM = json.dumps({"id": "a", "code": "x = 1", "iteration_found": 1, "metrics": {"combined_score": 0.5}})
UNREADABLE = (msgspec.MsgspecError, RecursionError)
METADATA = '{"bullets":{},"turn":3}'
AGENTS = ['{"result": "ok", "usage": {"input_tokens": 1}}', '{"type": "turn.failed", "error": "no"}', '{"response": 1}']
INSTANCES = (EXAMPLES / "mind_natural_plan/instances.jsonl").read_text().splitlines()
TRIP, MEETING = (next(json.loads(each) for each in INSTANCES if name in each) for name in ("trip_pl", "meeting_pl"))
PARSERS = {
    "a function in a reply": Parser(
        lambda text: mutation_engine.parse_response(text, PARENT, 1), [REPLY], (ValueError, SyntaxError)
    ),
    "a program": Parser(
        lambda text: mutation.ResponseReader().read("def line_v1(x):\n    return x\n", text),
        [REPLY, DIFF],
        (ValueError,),
    ),
    "search and replace": Parser(
        lambda text: mutation.apply_blocks("x = 1\ny = 2\n", mutation.parse_blocks(text)), [DIFF], (ValueError,)
    ),
    "edits of files": Parser(edits.parse_edits, [f"FILE: a.py\n{DIFF}"]),
    "JSON in a reply": Parser(
        lambda text: list(json_output.extract_json(text)), ['Well: {"a": [1, 2]} or ```json\n[]\n```']
    ),
    "what Claude Code prints": Parser(
        lambda text: command_line._parse_claude(text, "m"), AGENTS, command_line.PARSE_ERRORS
    ),
    "what Codex prints": Parser(lambda text: command_line._parse_codex(text, "m"), AGENTS, command_line.PARSE_ERRORS),
    "what Gemini prints": Parser(lambda text: command_line._parse_gemini(text, "m"), AGENTS, command_line.PARSE_ERRORS),
    "a skeleton": Parser(
        lambda text: parsing.parse(text, ["x", "v"]),
        ["def equation(x, v, params):\n    return params[0] * x"],
        (ValueError,),
    ),
    "a table": Parser(in_file("train.csv", table.TableReader().read_train), ["x,y\n1,2\n2,4\n3,6.5\n", "a;b\n1;2\n"]),
    "a trip": Parser(trip.parse_stays, [TRIP["golden_plan"]]),
    "a trip's task": Parser(lambda text: trip.from_text("t", text), [TRIP["prompt_0shot"]]),
    "a meeting's task": Parser(lambda text: meeting.from_text("m", text), [MEETING["prompt_0shot"]]),
    "a poem's task": Parser(lambda text: stegpoet.from_text("s", text), ["Hide the message 3 1 4 in a poem."]),
    "plans in a file": Parser(in_file("instances.jsonl", load.load_problems), ["\n".join(INSTANCES[:3])]),
    "a task's settings": Parser(
        in_file("atoll.toml", config.load, ("task.py", tasks.TASK)), [tasks.TOML, tasks.TOML + "[run]\nseed = 3\n"]
    ),
    "OpenEvolve's settings": Parser(
        in_file(
            "config.yaml",
            lambda path: config.load(path.parent),
            ("evaluator.py", "def evaluate(path): return 1.0"),
            ("initial_program.py", "x = 1\n"),
        ),
        [(EXAMPLES / "programs_minimum/config.yaml").read_text()],
    ),
    "--set": Parser(config.parse_set, ["run.seed=7", "a.b=[1, 2]"]),
    "--budget": Parser(config.parse_budget, ["60s", "$1,500evals"]),
    "a checkpoint": Parser(
        in_file("checkpoint_1/programs/a.json", lambda path: checkpoints.read_programs(path.parents[1])), [PROGRAM]
    ),
    "a decision's log": Parser(lambda text: evidence_logs.decode(text.encode("utf-8", "replace")), [ENTRY], UNREADABLE),
    "a folder of logs": Parser(
        in_file("2030-01-01.jsonl", lambda path: list(log_stores.FileLog(path.parent).read(START, START))),
        [ENTRY + "\n"],
    ),
    "a report of feedback": Parser(lambda text: feedback.decode(text.encode("utf-8", "replace")), [REPORT], UNREADABLE),
    "a replay's checkpoint": Parser(
        in_file("c.json", lambda path: replay_report.read_checkpoint(path, {})), ['{"request": {}, "position": 3}']
    ),
    "a file of parameters": Parser(in_file("current.json", file_layout.read_json), ['{"Version": 1, "value": 2}']),
    "a line of the audit": Parser(audit.parse_line, ['{"seq":1,"hash":"00"}'], (ValueError,)),
    "a decision by webhook": Parser(
        lambda text: deciders._parse_message(text.encode("utf-8", "replace")), ['{"at": "2030-01-01"}']
    ),
    "a skill": Parser(
        skills.parse_skill, ["---\nname: say-hi\ndescription: Says hi.\nmetadata:\n  atoll-when: '[1]'\n---\nSay hi.\n"]
    ),
    "bullets": Parser(bullets.parse_section, ["## Tactics\n\n- [tactics-00001] helpful=1 harmful=0 :: Wait.\n"]),
    "a playbook's folder": Parser(
        in_file("current/metadata.json", lambda path: playbooks.load_folder(path.parents[1])), [METADATA]
    ),
    "a saved life": Parser(
        in_file("life.jsonl", lambda path: list(analysis.read_turns([path]))),
        ['{"episode": 1, "tick": 2, "rewards": {}, "deltas": {}}\n'],
    ),
}


@pytest.mark.parametrize("name", PARSERS)
@hypothesis.settings(max_examples=choose(10, 30), suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=hypothesis.strategies.data())
def test_untrusted_text_is_read_or_rejected_with_a_message(name, data):
    parser = PARSERS[name]
    text = data.draw(garbling.texts(parser.samples))
    with contextlib.suppress(errors.AtollError, *parser.refuses):
        parser.read(text)
