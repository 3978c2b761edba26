"""Progress of runs in which an LLM changes programs."""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from atoll import candidate, cli, control, evaluation, function, gate, system, testing
from atoll.cli.run import llm_progress
from atoll.testing import Fault
from tests.cli import terminals

PROGRAM = """\
# EVOLVE-BLOCK-START
VALUE = 1.5
# EVOLVE-BLOCK-END
"""
EVALUATOR = """\
import runpy


def evaluate(path):
    value = runpy.run_path(path)["VALUE"]
    if value > 9:
        raise ValueError("[red]too large\\x1b[31m" + "x" * 5000)
    return {"combined_score": value}
"""
NO_TUNER = ("--set", "programs.engine_weights={tuner = 0.0}")
CONFIG = "max_iterations: 50\ndiff_based_evolution: false\ndatabase:\n  num_islands: 1\n"
REFUSAL = "I would [bold]rather\x1b[2J not."
VALUES = ["2.25", "2.250000125", "1.75", "10.0", None, None, "2.5 * 1.0"]
HOSTILE = "\x1b[2J[red]new\r\nbest\u202e" + "\u6f22" * 50_000


def answer(prompt: str, number: int) -> str:
    value = VALUES[number % len(VALUES)]
    return REFUSAL if value is None else f"```python\n# EVOLVE-BLOCK-START\nVALUE = {value}\n# EVOLVE-BLOCK-END\n```"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123")
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    task = tmp_path / "task"
    task.mkdir()
    for name, text in (("initial_program.py", PROGRAM), ("evaluator.py", EVALUATOR), ("config.yaml", CONFIG)):
        (task / name).write_text(text)


def without_seconds(line: str) -> str:
    return re.sub(r"  \d+\.\d s$", "", line)


def find_lines(text: str) -> list[str]:
    return [without_seconds(line) for line in text.splitlines() if line.startswith(("call ", "initial program:"))]


def test_each_candidate_of_run_and_resume_gets_line(capsys):
    with testing.ModelServer(answer) as server:
        options = ["--llm", f"openai:gpt-4o-mini@{server.url}", "--workers", "1", *NO_TUNER, "--json"]
        assert cli.main(["run", "task", "--budget", "6calls", *options]) == 0
        output = capsys.readouterr()
        result = json.loads(output.out)
        lines = find_lines(output.err)
        assert lines[:2] == [
            "initial program: 1.5",
            "call 1  1.500000 -> 2.250000 (+0.750000) new best  -1 +1 lines: VALUE = 2.25",
        ]
        (small,) = (line for line in lines if line.startswith("call 2  "))
        assert "-> 2.2500001" in small
        assert " new best  -1 +1 lines: VALUE = 2.250000125" in small
        assert re.match(r"call 3  \S+ -> 1.750000 \([+-]\S+\) (worse|better) ", lines[3])
        failed, unusable = lines[4:]
        assert re.match(r"call 4  \S+ -> failed    it raised ValueError: \[red\]too large\\x1b\[31mxxx.*…$", failed)
        assert re.match(
            r"call 6  \S+ -> unusable response  The response has no program: 'I would \[bold\]rather", unusable
        )
        assert "\x1b" not in output.err
        assert "later failures are only recorded" not in output.err
        assert max(map(len, output.err.splitlines())) <= 200
        assert cli.main(["resume", result["run"], "--budget", "1calls", "--json"]) == 0
        output = capsys.readouterr()
        resumed = json.loads(output.out)
        (line,) = find_lines(output.err)
        assert re.match(r"call 7  \S+ -> 2.50*\S+ \(\+\S+\) new best  -1 \+1 lines: VALUE = 2.5 \* 1.0", line)
        assert resumed.keys() == result.keys()
        assert cli.main(["resume", result["run"], "--budget", "1calls", "--quiet"]) == 0
        assert not capsys.readouterr().err


def test_terminal_shows_waiting_call_and_bar():
    faults = {0: Fault(delay_seconds=1.3), 1: Fault(delay_seconds=0.5)}
    with testing.ModelServer(answer, faults=faults) as server:
        options = ("--llm", f"openai:gpt-4o-mini@{server.url}", "--workers", "1", "--budget", "3calls", *NO_TUNER)
        prices = ("--set", "llm.price_in=10", "--set", "llm.price_out=10")
        status, written = terminals.on_a_terminal("run", "task", *options, *prices, columns=80)
    assert status == 0
    screen = terminals.without_codes(written)
    assert "waiting for gpt-4o-mini, 1 s  best 1.5" in screen
    assert re.search(r"━━  [12] of 3 LLM calls  \$0\.0\d+  \d+ s left", screen)
    lines = [line for line in re.split(r"[\r\n]+", screen) if line.startswith(("call ", "waiting", "━"))]
    assert max(map(cell_len, lines)) <= 80
    assert sum(line.startswith("call 1 ") for line in lines) == 1


def test_run_without_llm_keeps_its_lines(capsys):
    assert cli.main(["run", "task", "--iterations", "5"]) == 0
    output = capsys.readouterr().err
    assert not find_lines(output)
    assert re.search(r"s  iteration +0  best +1.5", output)


def make_fn(score: float | None, id: str, failure: str | None = None, **meta: candidate.JSON) -> function.Function:
    result = evaluation.Evaluation(score, failure=failure)
    props = function.DefaultFunctionProps(function.Text("x"), candidate_evaluator=lambda skeleton: result)
    return function.DefaultFunction(props).with_evaluation(
        candidate.Candidate(id, "x", ("0.0",), meta=meta), result, score
    )


def make_applied(
    *children: tuple[function.Function, gate.Decision], failure: str | None = None, calls: int = 1
) -> system.AppliedIteration:
    cost = evaluation.Cost(seconds=6.24, calls=calls)
    result = function.IterationResult(1, 0, [make_fn(2.5, "0.0")], {}, children, failure, cost)
    usage = control.Usage(iterations=1, evaluations=2, cost=evaluation.Cost(calls=14))
    return system.AppliedIteration(result, 1, usage, 2.5)


ACCEPT = gate.Decision("accept", "", "test")


def format_all(applied: system.AppliedIteration, width: int = 200) -> list[str]:
    return [text for line in llm_progress.iter_lines(applied) for text in line.format(width)]


def test_line_has_idea_of_candidate():
    children = [(make_fn(2.61577, "1.0", idea="SLSQP over centers and radii"), ACCEPT)]
    assert format_all(make_applied(*children)) == [
        "call 14  2.500000 -> 2.615770 (+0.115770) new best  SLSQP over centers and radii  6.2 s"
    ]


def test_hostile_idea_becomes_short_plain_line():
    (line,) = format_all(make_applied((make_fn(2.4, "1.0", idea=HOSTILE), ACCEPT)), width=80)
    assert cell_len(line) <= 80
    assert line.startswith(r"call 14  2.500000 -> 2.400000 (-0.100000) worse     \x1b[2J[red]new")
    assert line.endswith("…  6.2 s")
    assert line.isprintable()


def test_long_idea_of_new_best_gets_its_own_line():
    first, second = format_all(make_applied((make_fn(2.5 + 1e-15, "1.0", idea=HOSTILE), ACCEPT)), width=80)
    assert first == "call 14  2.5000000000000000 -> 2.5000000000000009 (+8.9e-16) new best  6.2 s"
    assert second.startswith(r"         \x1b[2J[red]new")
    assert cell_len(second) <= 80
    (line,) = format_all(make_applied((make_fn(2.5 - 1e-15, "1.0", idea=HOSTILE), ACCEPT)), width=80)
    assert line == "call 14  2.5000000000000000 -> 2.4999999999999991 (-8.9e-16) worse     6.2 s"


def test_outcomes_of_candidates():
    children = [
        (make_fn(2.5, "1.0", engine="diff"), ACCEPT),
        (make_fn(3.0, "1.1"), ACCEPT),
        (make_fn(2.75, "1.2"), ACCEPT),
        (make_fn(9.0, "1.3"), gate.Decision("reject", "it is too long", "gate")),
        (make_fn(9.0, "1.4"), gate.Decision("hold", "it needs a decision", "gate")),
        (make_fn(None, "1.5", "Traceback (most recent call last):\n  File x\nKeyError: 'y'"), ACCEPT),
    ]
    assert [line.split("  ", 1)[1].rstrip() for line in format_all(make_applied(*children))] == [
        "2.500000 -> 2.500000 (+0.000000) equal     diff",
        "2.500000 -> 3.000000 (+0.500000) new best",
        "2.500000 -> 2.750000 (+0.250000) better",
        "2.500000 -> 9.000000 (+6.500000) rejected  it is too long",
        "2.500000 -> 9.000000 (+6.500000) held      it needs a decision",
        "2.500000 -> failed    KeyError: 'y'  6.2 s",
    ]


def test_only_useful_failures_get_line():
    def format_failure(failure: str, calls: int) -> list[str]:
        return format_all(make_applied(failure=f"the mutator raised {failure}", calls=calls))

    assert format_failure("LLMError: status 503", 0) == ["call 14  2.500000 -> no response  status 503  6.2 s"]
    assert format_failure("UnusableResponse: no program", 1) == [
        "call 14  2.500000 -> unusable response  no program  6.2 s"
    ]
    assert format_failure("BudgetExhausted: the budget is used", 1) == []
    assert format_failure("ValueError: the tuner has no constants", 0) == []


def test_tuner_gets_line_only_for_new_best():
    worse, best = make_fn(2.0, "1.0", engine="tuner"), make_fn(2.75, "1.1", engine="tuner")
    assert format_all(make_applied((worse, ACCEPT), (best, ACCEPT), calls=0)) == [
        "        2.500000 -> 2.750000 (+0.250000) new best  tuner  6.2 s"
    ]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (2.5, 2.61577, "2.500000 -> 2.615770 (+0.115770)"),
        (512.0, 508.0, "512 -> 508 (-4)"),
        (2.5, 2.500000012, "2.50000000 -> 2.50000001 (+0.00000001)"),
        (1.5e-9, 2.5e-9, "1.5e-09 -> 2.5e-09 (+1e-09)"),
        (123456789.5, 123456790.25, "123456789.5 -> 123456790.2 (+0.75)"),
        (0.3, 0.1 + 0.2, "0.29999999999999999 -> 0.30000000000000004 (+5.6e-17)"),
        (None, 1.0, "- -> 1"),
        (0.0, 0.25, "0.000000 -> 0.250000 (+0.250000)"),
    ],
)
def test_scores_have_enough_digits(old, new, text):
    assert llm_progress.format_scores(old, new) == text


def test_use_of_resumed_limit_counts_from_its_start():
    use = llm_progress.LimitUse("calls", 100, 150, 200)
    assert use.share == 0.5
    assert str(use) == "150 of 200 LLM calls"
    assert str(llm_progress.LimitUse("usd", 0, 0.0123, 2.5)) == "$0.0123 of $2.5"
    assert str(llm_progress.LimitUse("seconds", 0, 41.7, 600)) == "42 of 600 s"
    assert llm_progress.LimitUse("calls", 100, 100, 100).share == 1.0


def test_durations_are_short():
    assert [llm_progress.format_duration(seconds) for seconds in (42.4, 600, 9000)] == ["42 s", "10 min", "2.5 h"]
