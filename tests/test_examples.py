"""Every example runs by itself, and what it claims is true."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atoll import candidate, cli, cluster, evaluation, function, store
from examples.kernel import funsearch_clusters, governed_parameter, map_elites, playbook_versions, ranked_islands

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KERNEL_DIR = EXAMPLES / "kernel"
FILES = sorted(KERNEL_DIR.glob("*.py"))
# A little above the scores at which they begin; the dear ones need not go on from there.
ENOUGH = {"binpacking": -4.12, "funsearch_capset": 18.7, "llmsr_oscillator": 0.97, "programs_minimum": 0.7}
TASKS = sorted(path.parent for path in EXAMPLES.glob("*/README.md") if path.parent != KERNEL_DIR)


@pytest.fixture
def kept():
    with store.Store("sqlite://") as kept:
        yield kept


def niches(evolver: cluster.Evolver, island: int = 0) -> cluster.NichedPopulation:
    pool = evolver.islands[island].population
    assert isinstance(pool, cluster.NichedPopulation)
    return pool


def found(fn: function.Function) -> evaluation.Evaluation:
    assert fn.evaluation is not None
    return fn.evaluation


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs_from_any_folder_and_says_what_came_out(path, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert 2 < len(result.stdout.splitlines()) < 25
    assert not result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_short_and_explains_itself(path):
    source = path.read_text(encoding="utf-8")
    assert 60 <= len(source.splitlines()) <= 130
    assert "\n\nParts: " in (ast.get_docstring(ast.parse(source)) or "")
    assert path.name in (KERNEL_DIR / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("task", TASKS, ids=lambda path: path.name)
def test_a_task_folder_runs_as_it_is_and_gets_better(task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # A constant priority has little to begin with, and a life is longer than a judgement.
    iterations = {"funsearch_capset": "600", "survival": "6"}.get(task.name, "150")
    target = ["--target", str(ENOUGH[task.name])] if task.name in ENOUGH else []
    assert cli.main(["run", str(task), "--iterations", iterations, *target, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "done"
    assert result["best_score"] > result["initial_score"]
    assert result["failures"] < result["steps"] / 3
    assert f"atoll run examples/{task.name}" in (task / "README.md").read_text(encoding="utf-8")


class TestFunsearchClusters:
    def test_the_law_is_found_and_holds_for_things_that_are_not_in_the_table(self):
        evolver = funsearch_clusters.build()
        evolver.run()
        assert found(evolver.best_fn()).score == 0.0
        assert evolver.best_fn().skeleton()(3, 7) == pytest.approx(73.5)

    def test_functions_that_behave_alike_share_a_cluster(self):
        evolver = funsearch_clusters.build(400)
        evolver.run()
        for island in evolver.islands:
            members = [cluster.members() for cluster in niches(evolver, island.index).clusters.values()]
            signatures = [{fn.signature() for fn in each} for each in members]
            assert all(len(each) == 1 for each in signatures)
            assert len(signatures) == len(set.union(*signatures))
            assert any(len(each) > 1 for each in members)

    def test_one_and_four_workers_export_the_same_bytes(self, kept):
        for name, workers in (("one", 1), ("four", 4)):
            kept.create(name)
            funsearch_clusters.build(300, workers=workers, records=kept.journal(name)).run()
        assert list(kept.export("one")) == list(kept.export("four"))
        assert kept.candidates("one").count() > 150

    def test_the_best_migrate_and_the_worst_half_of_the_islands_are_reset_by_steps(self):
        records = store.MemoryJournal()
        funsearch_clusters.build(1_600, seed=1, records=records).run()
        events = [(record.kind, record.step) for record in records.read() if record.kind in ("migrated", "reset")]
        assert events.count(("migrated", 400)) == 8
        assert events.count(("reset", 1_600)) == 4

    def test_a_formula_that_repeats_its_parent_is_not_judged(self, kept):
        run = kept.create()
        evolver = funsearch_clusters.build(300, records=kept.journal(run))
        evolver.run()
        repeats = [row for row in kept.candidates(run) if row.by == "novel"]
        assert repeats
        assert all(row.score is None and row.verdict == "reject" for row in repeats)


class TestMapElites:
    @pytest.fixture
    def finished(self, kept):
        run = kept.create()
        evolver = map_elites.build(records=kept.journal(run))
        evolver.run()
        return evolver, list(kept.candidates(run))

    def test_every_trip_keeps_the_best_bag_that_was_ever_judged_for_it(self, finished):
        evolver, rows = finished
        for trip in range(len(map_elites.TRIPS)):
            elite = map_elites.elites(evolver)["trip", trip]
            assert found(elite).scores[trip] == max(row.scores[trip] for row in rows)

    def test_every_cell_keeps_the_best_of_the_bags_that_belong_to_it(self, finished):
        evolver, rows = finished
        elites = map_elites.elites(evolver)
        keys = map_elites.CellAndTrips()
        fns = [evolver.best_fn().settle(candidate.Candidate(row.id, row.content), judged(row)) for row in rows]
        for fn in fns:
            keys(fn)  # the map grows to its last size
        best = dict[object, float]()
        for fn in fns:
            cell = keys(fn)[0]
            best[cell] = max(best.get(cell, -float("inf")), found(fn).score or 0.0)
        assert best == {key: found(fn).score for key, fn in elites.items() if key[0] == "cell"}
        assert len(best) > 8

    def test_one_bag_may_sit_in_several_niches(self):
        evolver = map_elites.build(40)
        evolver.run()
        ids = [fn.candidate.id for fn in map_elites.elites(evolver).values() if fn.candidate]
        assert len(set(ids)) < len(ids)

    def test_one_call_of_the_engine_makes_three_children(self, finished):
        _, rows = finished
        assert [row.id for row in rows if row.step == 1] == ["1.0", "1.1", "1.2"]
        assert len(rows) == 1 + 3 * 500


def judged(row: store.Row) -> evaluation.Evaluation:
    return evaluation.Evaluation(row.score, row.scores, row.metrics)


class TestRankedIslands:
    @pytest.fixture
    def finished(self):
        meter, records = ranked_islands.Meter(), store.MemoryJournal()
        evolver = ranked_islands.build(meter, records=records)
        evolver.run()
        return evolver, meter, records

    def test_no_round_is_measured_twice_though_rounds_migrate(self, finished):
        _, meter, records = finished
        assert [record for record in records.read() if record.kind == "migrated"]
        assert len(meter.measured) == len(set(meter.measured))

    def test_a_migrant_is_ranked_by_the_measure_of_its_host(self):
        evolver = ranked_islands.build(ranked_islands.Meter(), steps=120)  # later better rounds have taken their place
        evolver.run()
        migrants = [
            (island.index, fn)
            for island in evolver.islands
            for fn in niches(evolver, island.index).clusters["everyone"].members()
            if fn.candidate and fn.candidate.iteration and fn.candidate.island != island.index
        ]
        assert migrants
        for host, fn in migrants:
            assert fn.candidate
            assert fn.score() == ranked_islands.rank(host, found(fn))
            assert fn.score() != ranked_islands.rank(fn.candidate.island, found(fn))

    def test_every_island_is_best_at_what_it_wants(self, finished):
        evolver, _, _ = finished
        bests = [found(island.best_fn()) for island in evolver.islands]
        for island, best in enumerate(bests):
            assert ranked_islands.rank(island, best) == max(ranked_islands.rank(island, each) for each in bests)
        assert len({each.metrics["length"] for each in bests}) == 3


class TestPlaybookVersions:
    @pytest.fixture
    def finished(self, kept):
        run = kept.create()
        evolver = playbook_versions.build(kept, run)
        evolver.run()
        return kept, run, list(playbook_versions.history(kept, evolver))

    def test_the_last_version_eats_all_that_is_good_and_nothing_else(self, finished):
        _, _, history = finished
        assert history[-1][1] == sum(energy for energy in playbook_versions.WORLD.values() if energy > 0)

    def test_the_true_judgement_comes_after_a_version_was_kept(self, finished):
        kept, run, history = finished
        records = list(kept.journal(run).read())
        observed = [record.data["id"] for record in records if record.kind == "observed"]
        assert observed == [version.id for version in kept.versions().history(playbook_versions.KEY)]
        first_judgements = [record.data["evaluation"]["score"] for record in records if record.kind == "judged"]
        assert set(first_judgements) == {0.0}
        assert len({energy for _, energy, _ in history}) > 3

    def test_a_version_that_proved_worse_is_corrected_by_the_next(self, finished):
        _, _, history = finished
        energies = [energy for _, energy, _ in history]
        worse = [n for n in range(1, len(energies)) if energies[n] < energies[n - 1]]
        assert worse
        assert all(energies[n + 1] > energies[n] for n in worse)

    def test_the_curator_keeps_idle_rules_out(self, finished):
        kept, run, history = finished
        rejected = [row for row in kept.candidates(run) if row.verdict == "reject"]
        assert rejected
        assert all(row.by == "curator" for row in rejected)
        assert not {row.content for row in rejected} & {playbook for playbook, _, _ in history}


class TestGovernedParameter:
    @pytest.fixture
    def run(self, kept):
        run = kept.create()
        governed_parameter.build(kept, run).run()
        return run

    def head(self, kept):
        return kept.versions().get(governed_parameter.KEY)

    def resume(self, kept, run):
        governed_parameter.build(kept, run).run()

    def test_nothing_changes_without_an_approval(self, kept, run):
        self.resume(kept, run)
        assert (self.head(kept).n, self.head(kept).value) == (1, "1.0")
        assert all((row.score or 0.0) > 28.4 for row in governed_parameter.held(kept, run))
        assert len(governed_parameter.held(kept, run)) > 5

    def test_an_approval_changes_the_value_in_the_name_of_who_approved(self, kept, run):
        best = governed_parameter.held(kept, run)[0]
        governed_parameter.decide(kept, run, best, "accept", "agreed", "ada")
        self.resume(kept, run)
        assert self.head(kept)[1:] == (2, best.content, "agreed", "ada")

    def test_a_rejection_changes_nothing_and_ends_the_waiting(self, kept, run):
        best, *others = governed_parameter.held(kept, run)
        governed_parameter.decide(kept, run, best, "reject", "too slow for our customers", "ada")
        self.resume(kept, run)
        assert self.head(kept).n == 1
        assert governed_parameter.held(kept, run) == others

    def test_an_approval_of_another_content_is_refused(self, kept, run):
        best = governed_parameter.held(kept, run)[0]
        other = candidate.content_hash("900.0")
        kept.inbox(run).post(
            "decide", candidate=best.id, content_hash=other, verdict="accept", reason="agreed", by="mallory"
        )
        self.resume(kept, run)
        assert self.head(kept).n == 1
        (answer,) = [record.data for record in kept.journal(run).read() if record.kind == "controlled"]
        assert "not held with the content" in answer["refused"]

    def test_of_two_approvals_of_one_version_the_second_is_stale(self, kept, run):
        best, second, *_ = governed_parameter.held(kept, run)
        for row in (best, second):
            governed_parameter.decide(kept, run, row, "accept", "agreed", "ada")
        self.resume(kept, run)
        assert (self.head(kept).n, self.head(kept).value) == (2, best.content)
        late = kept.candidates(run).get(second.id)
        assert (late.verdict, late.by) == ("reject", "versions")

    def test_a_rollback_brings_the_old_value_back_and_loses_no_history(self, kept, run):
        best = governed_parameter.held(kept, run)[0]
        governed_parameter.decide(kept, run, best, "accept", "agreed", "ada")
        self.resume(kept, run)
        kept.versions().rollback(governed_parameter.KEY, 1, "customers complain", "bob")
        values = [version.value for version in kept.versions().history(governed_parameter.KEY)]
        assert values == ["1.0", best.content, "1.0"]
