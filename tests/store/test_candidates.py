"""`Candidates`, the rows derived from records, and the export."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll import errors, store
from atoll.journal import Record
from atoll.store import candidates
from tests.repetitions import choose
from tests.store import samples


@pytest.fixture
def journal(any_store):
    return any_store.journal(any_store.create_run("run"))


@pytest.fixture
def run_candidates(any_store, journal):
    journal.write(*samples.small_run())
    return any_store.candidates("run")


def ids(rows) -> list[str]:
    return [row.id for row in rows]


def test_candidates_are_ordered(run_candidates):
    drafts = [f"2.d{n}" for n in range(11)]
    assert ids(run_candidates) == ["0.0", "1.0", "2.0", "2.1", *drafts, "10.0"]
    assert run_candidates.count() == 16


def test_row_has_evaluation_and_decision(any_store, journal):
    evaluation = {"score": 2.5, "scores": [2.0, 3.0], "metrics": {"size": 4.0}, "feedback": "shorter"}
    data = {**samples.candidate("1.0", "x = 1"), "meta": {"engine": "syntax"}, "label": "0", "evaluation": evaluation}
    journal.write(Record("judged", 1, 0, data), samples.applied(1, samples.child("1.0", "accept", "prompt@3")))
    assert any_store.candidates("run").get("1.0") == store.Row(
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


def test_initial_candidate_is_accepted(run_candidates):
    founder = run_candidates.get("0.0")
    assert (founder.verdict, founder.reason, founder.by) == ("accept", "founded", "atoll")


def test_failed_candidate_has_no_score(run_candidates):
    failed = run_candidates.get("2.1")
    assert (failed.score, failed.failure, failed.verdict) == (None, "it broke", "reject")


def test_child_without_evaluation_has_a_row(run_candidates):
    unjudged = run_candidates.get("10.0")
    assert (unjudged.content, unjudged.score, unjudged.verdict) == ("body of 10.0", None, "reject")


def test_trial_has_no_decision(run_candidates):
    draft = run_candidates.get("2.d10")
    assert (draft.is_draft, draft.verdict, draft.score) == (True, None, 110.0)


def test_candidate_of_an_open_iteration_has_no_decision(any_store, journal):
    journal.write(samples.judged("1.0", 9.0))
    assert any_store.candidates("run").get("1.0").verdict is None
    assert any_store.candidates("run").list_best() == []


def test_second_evaluation_of_an_id_replaces_the_first(any_store, journal):
    journal.write(samples.judged("1.0", 1.0, content="first"))
    journal.write(samples.judged("1.0", 2.0, content="second"))
    row = any_store.candidates("run").get("1.0")
    assert (row.content, row.score) == ("second", 2.0)
    assert any_store.candidates("run").count() == 1


def test_late_decision_replaces_hold(any_store, journal):
    journal.write(samples.judged("1.0", 2.0), samples.applied(1, samples.child("1.0", "hold")))
    assert any_store.candidates("run").list_best() == []
    decision = ["accept", "fine", "ann", "key@4"]
    journal.write(Record("decided", 1, 0, {"id": "1.0", "content_hash": "", "decision": decision}))
    row = any_store.candidates("run").list_best()[0]
    assert (row.verdict, row.reason, row.by, row.version) == tuple(decision)


def test_other_records_create_no_row(any_store, journal):
    journal.write(Record("judged", 1, 0, {"id": "prompt@1"}), Record("applied", 1, 0, {}), Record("founded", 0, -1, {}))
    assert any_store.candidates("run").count() == 0


def test_unknown_candidate_is_not_found(run_candidates):
    for id in ("3.0", "03.0", "prompt@1", "", "2.x1"):
        with pytest.raises(errors.NotFound, match="not found in the run"):
            run_candidates.get(id)


class TestBest:
    def test_best_are_the_highest_accepted_scores(self, run_candidates):
        assert ids(run_candidates.list_best()) == ["2.0"]
        assert ids(run_candidates.list_best(5)) == ["2.0", "1.0", "0.0"]

    def test_best_of_one_island(self, run_candidates):
        assert ids(run_candidates.list_best(5, island=1)) == ["2.0"]
        assert ids(run_candidates.list_best(5, island=0)) == ["1.0", "0.0"]

    def test_equal_scores_are_ordered_by_acceptance(self, any_store, journal):
        journal.write(samples.founded(), samples.judged("2.0", 3.0), samples.judged("1.0", 3.0))
        journal.write(samples.judged("2.1", 3.0), samples.applied(2, samples.child("2.0"), samples.child("2.1")))
        journal.write(samples.applied(1, samples.child("1.0")))
        assert ids(any_store.candidates("run").list_best(3)) == ["2.0", "2.1", "1.0"]

    @pytest.mark.parametrize("island", [None, 0])
    def test_best_uses_an_index_in_sqlite(self, file, island):
        query = candidates.select_best(1, 3, island).compile(
            file.database.engine, compile_kwargs={"literal_binds": True}
        )
        with file.database.begin_read() as connection:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
        assert len(plan) == 2
        assert all(line.startswith("SEARCH") and "INDEX" in line for line in plan)

    @pytest.mark.parametrize(("island", "index"), [(None, "candidates_by_score"), (0, "candidates_by_island")])
    def test_best_uses_an_index_in_postgres(self, postgres_url, island, index):
        with store.open(postgres_url) as opened:
            opened.journal(opened.create_run("run")).write(*samples.small_run())
            query = candidates.select_best(1, 3, island).compile(
                opened.database.engine, compile_kwargs={"literal_binds": True}
            )
            with opened.database.begin_write() as connection:
                connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # otherwise it scans so few rows
                plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {query}").scalars())
        assert f"using {index}" in plan
        assert "Sort" not in plan


class TestLineage:
    def test_lineage_ends_at_the_initial_candidate(self, run_candidates):
        assert ids(run_candidates.get_lineage("10.0")) == ["10.0", "2.0", "1.0", "0.0"]

    def test_lineage_has_each_ancestor_once(self, any_store, journal):
        journal.write(samples.founded(), samples.judged("1.0", 1.0), samples.judged("1.1", 1.0))
        journal.write(samples.judged("2.0", 1.0, parents=["1.1", "1.0", "0.0"]))
        assert ids(any_store.candidates("run").get_lineage("2.0")) == ["2.0", "1.1", "1.0", "0.0"]

    def test_lineage_follows_versions(self, any_store, journal):
        journal.write(samples.judged("1.0", 1.0, parents=["prompt@1"]))
        journal.write(samples.applied(1, samples.child("1.0", version="prompt@2")))
        journal.write(samples.judged("2.0", 1.0, parents=["prompt@2"]))
        assert ids(any_store.candidates("run").get_lineage("2.0")) == ["2.0", "1.0"]


def test_iter_island(run_candidates):
    assert ids(run_candidates.iter_island(0)) == ["0.0", "1.0", "10.0"]


def test_iterate_in_chunks(any_store, journal):
    journal.write(*(samples.judged(f"{step}.{k}", 1.0) for step in range(1, 201) for k in (1, 0)))
    assert ids(any_store.candidates("run")) == [f"{step}.{k}" for step in range(1, 201) for k in (0, 1)]


class TestExport:
    def test_line_is_sorted_json_without_costs(self, any_store, journal):
        journal.write(samples.judged("1.0", 2.0))
        (line,) = any_store.export("run")
        assert line == json.dumps(json.loads(line), sort_keys=True)
        assert set(json.loads(line)) == set(store.Row.__slots__)
        assert "cost" not in line

    def test_export_does_not_depend_on_the_order_of_records(self, any_store):
        arrivals = [("one", 1), ("other", 2)]
        for run, seed in arrivals:
            journal, rng = any_store.journal(any_store.create_run(run)), random.Random(seed)
            judged = [record for record in samples.small_run() if record.kind == "judged"]
            rng.shuffle(judged)
            applied = [record for record in samples.small_run() if record.kind == "applied"]
            rng.shuffle(applied)
            journal.write(samples.founded())
            for record in [*judged, *applied]:
                journal.write(record)
        assert "\n".join(any_store.export("one")) == "\n".join(any_store.export("other"))


@settings(max_examples=choose(10, 25), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.sampled_from(["accept", "reject", "hold"]), st.integers(0, 2)), max_size=30
    )
)
def test_best_agrees_with_sorting(steps):
    with store.open("sqlite://") as opened:
        journal = opened.journal(opened.create_run("run"))
        for step, (score, verdict, island) in enumerate(steps, 1):
            journal.write(samples.judged(f"{step}.0", float(score), island=island))
            journal.write(samples.applied(step, samples.child(f"{step}.0", verdict), island=island))
        accepted = [
            (-score, step, island) for step, (score, verdict, island) in enumerate(steps, 1) if verdict == "accept"
        ]
        run_candidates = opened.candidates("run")
        assert ids(run_candidates.list_best(4)) == [f"{step}.0" for _, step, _ in sorted(accepted)[:4]]
        for expected in range(3):
            own = sorted(item for item in accepted if item[2] == expected)
            assert ids(run_candidates.list_best(4, island=expected)) == [f"{step}.0" for _, step, _ in own[:4]]
