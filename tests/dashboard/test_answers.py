"""Answers, failures, labels, comparisons, times and the other data that the overview shows."""

import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest
from starlette.testclient import TestClient

from atoll import store
from atoll.dashboard import run_totals, score_curves, server
from atoll.journal import Record
from atoll.runs import answer
from atoll.store.candidate_queries import CandidateQueries
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged

TOKEN = "a token for tests"


def fill(run_store: store.Store) -> None:
    """Writes a run with two LLM names, failures, an error output, and a cross of two parents."""
    plan = samples.plan(7, run={"llm": "router", "iterations": 40, "seed": 7, "target": 50.0})
    run_store.create_run("answers", plan)
    base = "def f(x):\n    a = 1\n    b = 2\n    return a\n"
    written = [
        Record("started", 0, -1, {"llm": "router", "budget": {"iterations": 40, "seconds": 1800}}),
        founded(1.0, base),
    ]
    for step in (1, 2):
        data = dict(judged(f"{step}.0", 1.0 + step, content=f"{base}    # {step}\n" * step).data)
        data["meta"] = {"engine": "rewrite", "model": "gpt-x-2026-01-01", "change": f"adds comment {step}"}
        written += [
            Record("begun", step, 0, {"parents": ["0.0"], "advice": {"llm": "openai:gpt-x"}}),
            Record("replied", step, 0, make_response("gpt-x-2026-01-01")),
            Record("judged", step, 0, data),
            Record("applied", step, 0, {**applied(step, child(f"{step}.0")).data, "cost": [1.0, 10, 5, 0.0, 1]}),
        ]
    # A cross: the first parent was edited, and the mutator noted its score.
    cross = dict(judged("3.0", 9.0, content=f"{base}    # 1\n    # more\n", parents=["1.0", "2.0"]).data)
    cross["meta"] = {"engine": "cross", "from_score": 2.0, "idea": "joins two"}
    broken = dict(judged("4.0", 0.0, parents=["3.0"]).data)
    blob = run_store.blobs().put(b"Invalid shapes: (3, 4)\nmore")
    broken["evaluation"] = {"score": 0.0, "artifacts": {"stderr": [blob.sha256, blob.size, blob.head]}}
    ran = {"id": "4.0", "decision": ["accept", "it ran", "ran", None]}
    written += [
        Record("judged", 3, 0, cross),
        applied(3, child("3.0")),
        Record("judged", 4, 0, broken),
        applied(4, ran),
        Record("begun", 5, 0, {"parents": ["3.0"], "advice": {"llm": "openai:gpt-x"}}),
        Record("applied", 5, 0, {"children": [], "evaluations": 0, "failure": "The response has no program."}),
    ]
    for step in range(6, 16):
        failed = dict(judged(f"{step}.0", None, parents=["3.0"]).data)
        failed["evaluation"] = {"score": None, "failure": f"Invalid shapes: {step}"}
        decision = {"id": f"{step}.0", "decision": ["reject", f"Invalid shapes: {step}", "judge", None]}
        written += [Record("judged", step, 0, failed), applied(step, decision)]
    written.append(Record("ended", 15, -1, {"reason": "budget of 40 iterations used"}))
    run_store.journal("answers").write(*written)


def make_response(model: str) -> dict[str, Any]:
    return {"text": "x", "prompt": "p", "model": model, "call": "0", "request": "r", "usage": [1.0, 10, 5, 0.0]}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "atoll.db"
    with store.Store(path) as run_store:
        fill(run_store)
        for seed in (1, 2, 3):
            samples.walk(run_store, f"seed{seed}", seed=seed, iterations=20)
        app = server.create_app(run_store, token=TOKEN)
        with TestClient(app, base_url="http://127.0.0.1:8765", headers={"x-atoll-token": TOKEN}) as client:
            yield client


def get(client, path, **params):
    result = client.get(path, params=params)
    assert result.status_code == 200, result.text
    return result.json()


def test_answer_says_what_was_found_with_diff_settings_and_next_steps(answers):
    data = get(answers, "/api/runs/answers/answer")
    assert data["headline"] == "The best score is 9, up from 1 (+800%)."
    assert any(line.startswith("Cost: 15 evaluations, 2 LLM calls (price unknown)") for line in data["details"])
    assert data["best"]["id"] == "3.0"
    assert "+    # more" in data["best"]["diff"]["diff"]
    assert {"name": "run.seed", "value": "7"} in data["settings"]
    assert any("failed" in step["text"] and "Invalid shapes" in step["text"] for step in data["next_steps"])


def test_headline_says_that_a_gain_is_within_noise(tmp_path):
    with store.Store(tmp_path / "atoll.db") as run_store:
        run_store.create_run("noisy", samples.plan(1))
        start, better = founded(1.0), judged("1.0", 1.25)
        start.data["evaluation"]["metrics"] = better.data["evaluation"]["metrics"] = {"score_error": 0.125}
        end = Record("ended", 1, -1, {"reason": "budget of 1 iterations used"})
        run_store.journal("noisy").write(start, better, applied(1, child("1.0")), end)
        app = server.create_app(run_store, token=TOKEN)
        with TestClient(app, base_url="http://127.0.0.1:8765", headers={"x-atoll-token": TOKEN}) as client:
            headline = get(client, "/api/runs/noisy/answer")["headline"]
    assert headline == "The best score is 1.25, up from 1 (+25%), which is within the noise of the evaluator."


def test_failures_are_grouped_by_reason_with_examples(answers):
    first, second = get(answers, "/api/runs/answers/answer")["failures"]
    assert (first["count"], first["source"], first["text"]) == (10, "evaluation", "Invalid shapes: N")
    assert first["examples"][0] == "15.0"
    assert (second["count"], second["source"]) == (1, "proposal")


@pytest.mark.parametrize("sort", ["best", "worst", "newest"])
def test_failed_candidates_are_listed_in_every_order(answers, sort):
    rows = get(answers, "/api/runs/answers/candidates", failed="true", sort=sort, limit=500)["candidates"]
    assert len(rows) == 10
    assert all(row["failed"] and row["why"].startswith("Invalid shapes") for row in rows)


def test_score_with_error_output_has_a_warning(answers):
    row = get(answers, "/api/runs/answers/candidates/4.0")
    assert (row["score"], row["by"]) == (0.0, "ran")
    assert row["warning"] == "Invalid shapes: (3, 4)"
    assert get(answers, "/api/runs/answers/candidates/3.0")["warning"] == ""


def test_diff_is_against_the_edited_parent(answers):
    row = get(answers, "/api/runs/answers/candidates/3.0")
    assert row["edited"] == "1.0"
    assert row["diffs"][0]["parent"] == "1.0"
    assert row["parents"] == ["1.0", "2.0"]


def test_model_appears_once_with_its_reply_name(answers):
    (row,) = get(answers, "/api/runs/answers/models")["models"]
    assert (row["model"], row["replied_as"]) == ("openai:gpt-x", ["gpt-x-2026-01-01"])
    assert (row["calls"], row["failures"]) == (2, 1)


def test_unknown_price_is_not_zero(answers):
    row = get(answers, "/api/runs/answers")
    assert (row["calls"], row["tokens"], row["cost_usd"]) == (2, 30, 0.0)  # the page shows "unknown"


def test_candidate_rows_have_model_parent_change_cost_and_time(answers):
    (row,) = get(answers, "/api/runs/answers/candidates", id="2.0")["candidates"]
    assert (row["model"], row["change"], row["parents"]) == ("gpt-x-2026-01-01", "adds comment 2", ["0.0"])
    assert (row["cost_usd"], row["num_llm_calls"]) == (0.0, 1)
    assert time.time() - row["at"] < 3600


def test_candidates_are_searched_by_text(answers):
    def search(text: str) -> list[str]:
        page = get(answers, "/api/runs/answers/candidates", q=text, sort="oldest")
        assert page["is_done"]
        return [row["id"] for row in page["candidates"]]

    assert search("# MORE") == ["3.0"]
    assert search("adds comment") == ["1.0", "2.0"]
    assert search("invalid shapes: 12") == ["12.0"]
    assert search("text that no candidate has") == []


def test_search_continues_after_a_page(answers):
    first = get(answers, "/api/runs/answers/candidates", q="invalid", sort="oldest", limit=4)
    rest = get(answers, "/api/runs/answers/candidates", q="invalid", sort="oldest", after=first["next"])
    ids = [row["id"] for row in first["candidates"] + rest["candidates"]]
    assert ids == [f"{step}.0" for step in range(6, 16)]


def test_records_have_times(answers):
    events = get(answers, "/events", run="answers")["events"]
    assert all(time.time() - event["at"] < 3600 for event in events)
    dots = get(answers, "/api/runs/answers/dots")
    assert dots["seconds"][0] is not None
    assert get(answers, "/api/runs/answers/improvements")["improvements"][-1]["calls"] == 2


def test_old_store_is_upgraded_and_has_no_times(tmp_path):
    path = tmp_path / "old.db"
    with store.Store(path) as run_store:
        samples.walk(run_store, "old", iterations=5)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("ALTER TABLE records DROP COLUMN at")
        raw.execute("UPDATE atoll SET schema_version = 2")
    with store.Store(path) as run_store:
        samples_app = server.create_app(run_store, token=TOKEN)
        with TestClient(samples_app, base_url="http://127.0.0.1:8765") as client:
            assert {event["at"] for event in get(client, "/events", run="old")["events"]} == {None}
            assert get(client, "/api/runs/old")["seconds"] is None
            assert get(client, "/api/runs/old/improvements")["improvements"][0]["seconds"] is None
        run_store.journal("old").write(Record("started", 5, -1, {}))
        assert next(iter(run_store.feed("old").follow(0, timeout=1.0))) is not None


def test_island_mean_covers_all_evaluations_so_far(tmp_path):
    with store.Store(tmp_path / "means.db") as run_store:
        run_store.create_run("run", samples.plan())
        steps = [(step, float(score)) for step, score in enumerate([0, 10, 0, 10], 1)]
        records = [
            record
            for step, score in steps
            for record in (judged(f"{step}.0", score), applied(step, child(f"{step}.0")))
        ]
        run_store.journal("run").write(founded(0.0), *records)
        totals = run_totals.RunTotals(run_store, "run")
        totals.advance(10.0)
        curve = score_curves.compute_curve(CandidateQueries(run_store, "run"), totals)
    assert curve.run_line.mean == [0.0, 0.0, 10 / 3, 2.5, 4.0]


def test_eta_respects_the_time_limit(tmp_path):
    with store.Store(tmp_path / "eta.db") as run_store:
        run_store.create_run("run", samples.plan())
        run_store.journal("run").write(
            Record("started", 0, -1, {"budget": {"evaluations": 1_000_000, "seconds": 60.0}}), founded(1.0), applied(1)
        )
        totals = run_totals.RunTotals(run_store, "run")
        totals.advance(10.0)
        remaining = totals.estimate_remaining_seconds()
    assert remaining is not None
    assert 0 < remaining <= 60


def test_label_is_stored_and_audited(answers):
    body = {"name": "First try", "tags": ["paper", "paper", "gpt"], "note": "keep\nthis", "by": "ann"}
    result = answers.post("/api/runs/answers/label", json=body)
    assert result.json() == {"name": "First try", "tags": ["paper", "gpt"], "note": "keep\nthis"}
    row = next(row for row in get(answers, "/api/runs")["runs"] if row["id"] == "answers")
    assert row["label"]["name"] == "First try"
    entry = answers.app.state.store.change_log().list_history("run_labels/answers", 1)[0]
    assert (entry.author, entry.kind) == ("ann", "set")
    assert answers.post("/api/runs/answers/label", json={"tags": ["a,b"]}).status_code == 422
    assert answers.post("/api/runs/answers/label", json=body, headers={"x-atoll-token": "wrong"}).status_code in (
        401,
        403,
    )


def test_comparison_groups_seeds_and_names_settings_that_differ(answers):
    data = get(answers, "/api/compare", run=["seed1", "seed2", "seed3"])
    (group,) = data["groups"]
    scores = sorted(item["row"]["best_score"] for item in data["runs"])
    assert (group["median"], group["low"], group["high"]) == (scores[1], scores[0], scores[2])
    assert data["different"] == ["run.seed"]
    assert data["is_same_task"]
    assert answers.get("/api/compare").status_code == 422


def test_page_of_a_run_has_the_same_headline_and_runs_nothing(answers):
    result = answers.get("/api/runs/answers/page")
    assert "attachment" in result.headers["content-disposition"]
    assert "The best score is 9, up from 1" in result.text
    assert "<script" not in result.text


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"system": "mind", "result": {"solved": 12, "total": 12}}, "Solved 12 of 12 problems."),
        (
            {"system": "survival", "result": {"episodes": 4, "deaths": 1, "mean_ticks": 120.4}},
            "3 of 4 lives survived to the end; the mean life lasted 120 ticks.",
        ),
        (
            {"system": "llmsr", "result": {"nmse": {"train": 1e-3, "test_id": 2e-3}}},
            "Found a law with a relative squared error of 0.002 on held-out data.",
        ),
        ({"best_score": None}, "No candidate has a score."),
        ({"best_score": 1.0, "initial_score": 1.0}, "Found nothing better than the initial candidate, which scores 1."),
        ({"best_score": 5.0, "target": 4.0}, "Reached the target: the best score is 5, up from 0.5 (+900%)."),
    ],
)
def test_headline_of_each_system(facts, expected):
    base: dict[str, Any] = {"run": "r", "system": "programs", "status": "done", "initial_score": 0.5, "best_score": 2.0}
    counts = {"evaluations": 10, "failures": 0, "calls": 0, "cost_usd": 0.0}
    assert answer.make_answer(answer.AnswerFacts(**{**base, **counts, **facts})).headline == expected


def test_better_baseline_is_said():
    found = [answer.BaselineScore("no LLM", 1.5, "a"), answer.BaselineScore("best of N", 2.0, "b")]
    facts = answer.AnswerFacts("r", "programs", "done", 0.0, 1.0, 10, 0, 0, 0.0, baselines=found)
    said = answer.make_answer(facts)
    expected = "The baseline best of N (every child from the initial candidate) was better: 2 with the same budget."
    assert expected in said.details
    assert any("best of N" in step.text and step.command == "atoll best b" for step in said.next_steps)


@pytest.mark.parametrize(
    ("facts", "present", "absent"),
    [
        # A baseline that is better by a hair does not make a run worthless.
        (
            {"baselines": [answer.BaselineScore("best of N", 2.001, "b")]},
            "reached about the same score, 2.001, with the same budget.",
            "not worth its cost",
        ),
        # An exact law needs no larger budget, and its score has a meaning.
        (
            {"system": "llmsr", "result": {"law": "x", "nmse": {"train": 1e-30}}, "evaluations_to_best": 10},
            "The best score (correct digits on the training data) is 2, up from 0.5.",
            "larger budget",
        ),
        # Twelve plans have no single best one.
        ({"system": "mind", "result": {"solved": 12, "total": 12}}, "Read the plans below.", "atoll best"),
        # The evaluator is a Python function, so that no command can call it.
        ({"system": "evolve"}, "pass baselines=True to atoll.evolve", "--baselines"),
        # Plans have a score of the task and a fitness of the search.
        (
            {"system": "mind", "result": {"solved": 1, "total": 2, "scoring": "The score is minus the errors."}},
            "How the task scores a plan: The score is minus the errors.\nThe best fitness, from 0 to 1,",
            "may be chance",
        ),
        # The test score and the baselines of `atoll.evolve` are in its result.
        (
            {
                "system": "evolve",
                "result": {"test": 1.5, "initial_test": 0.25, "baselines": {"best-of-N": 2.0, "no LLM": "not run"}},
            },
            "On test data, which the search did not use, it scores 1.5, up from 0.25.",
            "baselines=True",
        ),
        (
            {
                "system": "evolve",
                "result": {"test": 0.2, "initial_test": 0.25, "gain": [-0.05, -0.1, 0.0], "test_size": 9},
            },
            "That is no better than the initial candidate (0.25).\nThe mean gain on its 9 instances is -0.05;",
            "up from 0.25",
        ),
        # A baseline that is as good is said, and one that did not end had not the same budget.
        (
            {"baselines": [answer.BaselineScore("best of N", 2.0, "b")]},
            "The baseline best of N was as good and is simpler.",
            "not worth its cost",
        ),
        (
            {"baselines": [answer.BaselineScore("no LLM", 1.0, "b", "interrupted")]},
            "The baseline no LLM reached 1, but did not end (status: interrupted).",
            "with the same budget",
        ),
        (
            {
                "system": "survival",
                "result": {"episodes": 4, "deaths": 3, "mean_ticks": 2.5},
                "life_scores": [1, 3, 2, 4],
            },
            "(the score is the number of ticks lived). The difference may be chance.",
            "--baselines",
        ),
        (
            {"system": "survival", "result": {"episodes": 4}, "life_scores": [1.0, 2.0, 3.0, 5.0]},
            "The last 2 lives scored 4 on average, more than the first 2 (1.5).",
            "--baselines",
        ),
    ],
)
def test_answer_of_each_system_says_what_helps(facts, present, absent):
    base: dict[str, Any] = {"run": "r", "system": "programs", "status": "done", "initial_score": 0.5, "best_score": 2.0}
    counts = {"evaluations": 10, "failures": 0, "calls": 0, "cost_usd": 0.0}
    said = answer.make_answer(answer.AnswerFacts(**{**base, **counts, **facts}))
    text = "\n".join([*said.details, *(f"{step.text} {step.command}" for step in said.next_steps)])
    assert present in text
    assert absent not in text
