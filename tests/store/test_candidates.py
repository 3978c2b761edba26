"""Candidates: the projection, its queries and the export."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from atoll import errors, store
from atoll.journal import Record
from atoll.store.candidates import candidates
from tests.store import samples


@pytest.fixture
def journal(either):
    return either.journal(either.create("run"))


@pytest.fixture
def found(either, journal):
    journal.write(*samples.small_run())
    return either.candidates("run")


def ids(rows) -> list[str]:
    return [row.id for row in rows]


def test_they_come_by_step_and_number_with_drafts_after_children(found):
    drafts = [f"2.d{n}" for n in range(11)]
    assert ids(found) == ["0.0", "1.0", "2.0", "2.1", *drafts, "10.0"]
    assert found.count() == 16


def test_a_row_holds_what_was_found_out_and_decided(either, journal):
    found = {"score": 2.5, "scores": [2.0, 3.0], "metrics": {"size": 4.0}, "feedback": "shorter"}
    data = {**samples.candidate("1.0", "x = 1"), "meta": {"engine": "syntax"}, "label": "0", "evaluation": found}
    journal.write(Record("judged", 1, 0, data), samples.applied(1, samples.child("1.0", "accept", "prompt@3")))
    assert either.candidates("run").get("1.0") == store.Row(
        id="1.0",
        parents=("0.0",),
        island=0,
        step=1,
        content="x = 1",
        score=2.5,
        scores=(2.0, 3.0),
        metrics={"size": 4.0},
        feedback="shorter",
        failure=None,
        meta={"engine": "syntax"},
        verdict="accept",
        reason="accepted for a reason",
        by="a gate",
        version="prompt@3",
        is_draft=False,
    )


def test_a_founder_is_accepted(found):
    founder = found.get("0.0")
    assert (founder.verdict, founder.reason, founder.by) == ("accept", "founded", "atoll")


def test_a_failure_is_a_row_without_a_score(found):
    failed = found.get("2.1")
    assert (failed.score, failed.failure, failed.verdict) == (None, "it broke", "reject")


def test_a_child_that_was_never_judged_is_a_row(found):
    unjudged = found.get("10.0")
    assert (unjudged.content, unjudged.score, unjudged.verdict) == ("body of 10.0", None, "reject")


def test_a_draft_is_marked_and_undecided(found):
    draft = found.get("2.d10")
    assert (draft.is_draft, draft.verdict, draft.score) == (True, None, 110.0)


def test_what_was_judged_and_not_yet_applied_is_undecided(either, journal):
    journal.write(samples.judged("1.0", 9.0))
    assert either.candidates("run").get("1.0").verdict is None
    assert either.candidates("run").best() == []


def test_what_is_judged_again_under_its_id_counts_last(either, journal):
    journal.write(samples.judged("1.0", 1.0, content="first"))
    journal.write(samples.judged("1.0", 2.0, content="second"))
    row = either.candidates("run").get("1.0")
    assert (row.content, row.score) == ("second", 2.0)
    assert either.candidates("run").count() == 1


def test_a_late_decision_replaces_the_hold(either, journal):
    journal.write(samples.judged("1.0", 2.0), samples.applied(1, samples.child("1.0", "hold")))
    assert either.candidates("run").best() == []
    decision = ["accept", "fine", "ann", "key@4"]
    journal.write(Record("decided", 1, 0, {"id": "1.0", "content_hash": "", "decision": decision}))
    row = either.candidates("run").best()[0]
    assert (row.verdict, row.reason, row.by, row.version) == tuple(decision)


def test_records_about_no_candidate_make_no_row(either, journal):
    journal.write(Record("judged", 1, 0, {"id": "prompt@1"}), Record("applied", 1, 0, {}), Record("founded", 0, -1, {}))
    assert either.candidates("run").count() == 0


def test_an_unknown_one_is_not_found(found):
    for id in ("3.0", "03.0", "prompt@1", "", "2.x1"):
        with pytest.raises(errors.NotFound, match="no candidate"):
            found.get(id)


class TestBest:
    def test_the_highest_accepted_scores_come_first(self, found):
        assert ids(found.best()) == ["2.0"]
        assert ids(found.best(5)) == ["2.0", "1.0", "0.0"]

    def test_one_island_has_its_own(self, found):
        assert ids(found.best(5, island=1)) == ["2.0"]
        assert ids(found.best(5, island=0)) == ["1.0", "0.0"]

    def test_at_equal_score_the_first_accepted_is_better(self, either, journal):
        journal.write(samples.founded(), samples.judged("2.0", 3.0), samples.judged("1.0", 3.0))
        journal.write(samples.judged("2.1", 3.0), samples.applied(2, samples.child("2.0"), samples.child("2.1")))
        journal.write(samples.applied(1, samples.child("1.0")))
        assert ids(either.candidates("run").best(3)) == ["2.0", "2.1", "1.0"]

    @pytest.mark.parametrize("island", [None, 0])
    def test_it_is_an_index_lookup(self, file, island):
        query = candidates.select_best(1, 3, island).compile(
            file.database.engine, compile_kwargs={"literal_binds": True}
        )
        with file.database.begin_read() as connection:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
        assert len(plan) == 2
        assert all(line.startswith("SEARCH") and "INDEX" in line for line in plan)

    @pytest.mark.parametrize(("island", "index"), [(None, "candidates_by_score"), (0, "candidates_by_island")])
    def test_a_server_has_an_index_for_it_too(self, postgres_url, island, index):
        with store.open(postgres_url) as opened:
            opened.journal(opened.create_run("run")).write(*samples.small_run())
            query = candidates.select_best(1, 3, island).compile(
                opened.database.engine, compile_kwargs={"literal_binds": True}
            )
            with opened.database.begin_write() as connection:
                connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # a few rows are not worth an index
                plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {query}").scalars())
        assert f"using {index}" in plan
        assert "Sort" not in plan


class TestLineage:
    def test_it_leads_to_the_founder(self, found):
        assert ids(found.lineage("10.0")) == ["10.0", "2.0", "1.0", "0.0"]

    def test_every_ancestor_comes_once_and_the_nearest_first(self, either, journal):
        journal.write(samples.founded(), samples.judged("1.0", 1.0), samples.judged("1.1", 1.0))
        journal.write(samples.judged("2.0", 1.0, parents=["1.1", "1.0", "0.0"]))
        assert ids(either.candidates("run").lineage("2.0")) == ["2.0", "1.1", "1.0", "0.0"]

    def test_it_follows_versions_to_the_candidates_that_made_them(self, either, journal):
        journal.write(samples.judged("1.0", 1.0, parents=["prompt@1"]))
        journal.write(samples.applied(1, samples.child("1.0", version="prompt@2")))
        journal.write(samples.judged("2.0", 1.0, parents=["prompt@2"]))
        assert ids(either.candidates("run").lineage("2.0")) == ["2.0", "1.0"]


def test_an_island_has_its_candidates_in_order(found):
    assert ids(found.iter_island(0)) == ["0.0", "1.0", "10.0"]


def test_iterating_goes_on_over_many_portions(either, journal):
    journal.write(*(samples.judged(f"{step}.{k}", 1.0) for step in range(1, 201) for k in (1, 0)))
    assert ids(either.candidates("run")) == [f"{step}.{k}" for step in range(1, 201) for k in (0, 1)]


class TestExport:
    def test_a_line_is_sorted_json_without_costs(self, either, journal):
        journal.write(samples.judged("1.0", 2.0))
        (line,) = either.export("run")
        assert line == json.dumps(json.loads(line), sort_keys=True)
        assert set(json.loads(line)) == set(store.Row.__slots__)
        assert "cost" not in line

    def test_it_is_the_same_whatever_arrived_first(self, either):
        arrivals = [("one", 1), ("other", 2)]
        for run, seed in arrivals:
            journal, rng = either.journal(either.create(run)), random.Random(seed)
            judged = [record for record in samples.small_run() if record.kind == "judged"]
            rng.shuffle(judged)
            applied = [record for record in samples.small_run() if record.kind == "applied"]
            rng.shuffle(applied)
            journal.write(samples.founded())
            for record in [*judged, *applied]:
                journal.write(record)
        assert "\n".join(either.export("one")) == "\n".join(either.export("other"))


@settings(max_examples=25, deadline=None)
@given(
    some.lists(
        some.tuples(some.integers(-3, 3), some.sampled_from(["accept", "reject", "hold"]), some.integers(0, 2)),
        max_size=30,
    )
)
def test_best_agrees_with_sorting_everything(steps):
    with store.open("sqlite://") as opened:
        journal = opened.journal(opened.create_run("run"))
        for step, (score, verdict, island) in enumerate(steps, 1):
            journal.write(samples.judged(f"{step}.0", float(score), island=island))
            journal.write(samples.applied(step, samples.child(f"{step}.0", verdict), island=island))
        accepted = [
            (-score, step, island) for step, (score, verdict, island) in enumerate(steps, 1) if verdict == "accept"
        ]
        found = opened.candidates("run")
        assert ids(found.list_best(4)) == [f"{step}.0" for _, step, _ in sorted(accepted)[:4]]
        for wanted in range(3):
            own = sorted(each for each in accepted if each[2] == wanted)
            assert ids(found.list_best(4, island=wanted)) == [f"{step}.0" for _, step, _ in own[:4]]
