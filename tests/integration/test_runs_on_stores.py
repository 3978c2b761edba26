"""The evolver on a real store: exports, resumes, several runs in one store."""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from atoll import cluster, errors, function, gate, journal, store
from atoll.store import memory
from tests import fixtures


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "atoll.db" if request.param == "file" else request.getfixturevalue("postgres_url"))


def run(run_store: store.Store, name: str, **options: Any) -> str:
    """Runs or resumes the toy problem under a name and returns its export."""
    if name not in {item.id for item in run_store.list_runs()}:
        run_store.create_run(name, {})
    engine = options.pop("engine", None) or fixtures.Walker(delays=0.002, children=2)
    settings: dict[str, Any] = {"ordered": True, "window": 6, "iterations": 50, "learner": fixtures.Bandit()} | options
    fixtures.make_evolver(engine, records=run_store.journal(name), **settings).run()
    return "\n".join(run_store.export(name))


def test_exports_are_byte_identical_for_any_number_of_workers(url: str) -> None:
    with store.Store(url) as run_store:
        exports = [
            run(run_store, f"workers-{workers}", num_parallel=workers)
            for workers in ((1, 2, 4, 8) if "://" not in url else (1, 4))
        ]
    assert all(export == exports[0] for export in exports)
    assert exports[0].count("\n") == 100


def test_run_continues_in_new_store_object_with_larger_budget(url: str) -> None:
    for iterations in (10, 20, 50):
        with store.Store(url) as run_store:
            assert run(run_store, "run", iterations=iterations).count("\n") == 2 * iterations


def test_stop_and_resume_on_disk_change_nothing(url: str) -> None:
    with store.Store(url) as run_store:
        complete = run(run_store, "whole")
        run_store.create_run("parts", {})
        for _ in range(4):
            records = run_store.journal("parts")
            evolver = fixtures.make_evolver(
                fixtures.Walker(delays=0.002, children=2),
                records=records,
                ordered=True,
                window=6,
                iterations=50,
                learner=fixtures.Bandit(),
                num_parallel=3,
            )
            enough = min(len(list(records.read())) + 20, complete.count("\n"))
            evolver.start()
            fixtures.wait_until(lambda: len(list(run_store.journal("parts").read())) >= enough)  # noqa: B023
            evolver.stop()
        assert run(run_store, "parts") == complete


def test_several_runs_write_into_one_store_at_once(url: str) -> None:
    with store.Store(url) as run_store:
        alone = run(run_store, "alone")
        threads = [threading.Thread(target=run, args=(run_store, f"run-{number}")) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all("\n".join(run_store.export(f"run-{number}")) == alone for number in range(4))


def test_run_resumes_after_full_disk(tmp_path: Path) -> None:
    with store.Store(str(tmp_path / "atoll.db")) as run_store:
        complete = run(run_store, "whole")
    path = tmp_path / "full.db"
    with store.Store(str(path)) as run_store:
        run_store.create_run("run", {})
        records = FillingUp(run_store.journal("run"), room=60)
        with pytest.raises(errors.JournalFailed, match="disk is full"):
            fixtures.make_evolver(
                fixtures.Walker(children=2),
                records=records,
                ordered=True,
                window=6,
                iterations=50,
                learner=fixtures.Bandit(),
            ).run()
    with store.Store(str(path)) as run_store:
        assert run(run_store, "run") == complete


class FillingUp:
    """A journal on a disk that has room for so many commits."""

    def __init__(self, inner: journal.Journal, room: int) -> None:
        self._inner, self._room = inner, room

    def write(self, *records: journal.Record) -> None:
        self._room -= 1
        if self._room < 0:
            raise sqlite3.OperationalError("database or disk is full")
        self._inner.write(*records)

    def read(self, island: int | None = None) -> Any:
        return self._inner.read(island)


class Revising:
    """Appends a line to the head, whatever it is."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        text = f"{context.parents[0].skeleton()}\nline {context.iteration}"
        return [context.parents[0].clone(function.Text(text))]


def length(skeleton: function.Skeleton[..., Any]) -> Any:
    return len(str(skeleton))


def head_run(run_store: store.Store, records: journal.Journal, iterations: int) -> None:
    initial = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text("title"), candidate_evaluator=length)
    )

    def make_population(island: int, rng: object, announce: object) -> cluster.VersionedPopulation:
        return cluster.VersionedPopulation(run_store.versions(), "playbook", initial, function.Text, run_id="run")

    fixtures.make_evolver(
        Revising(),
        start=initial,
        num_islands=1,
        records=records,
        iterations=iterations,
        schedule=cluster.RoundRobin(1),
        islands={"make_population": make_population, "gate": gate.require_improvement()},
    ).run()


def test_crash_between_version_and_record_makes_no_second_version(url: str) -> None:
    with store.Store(url) as run_store:
        records = memory.MemoryJournal()
        for _ in range(40):
            cut = FillingUp(records, room=3)
            try:
                head_run(run_store, cut, iterations=8)
            except errors.JournalFailed:
                continue
            break
        history = run_store.versions().history("playbook")
        applied = [record for record in records.read() if record.kind == "applied"]
    assert [version.value.count("\n") for version in history] == list(range(9))
    assert [record.data["children"][0]["decision"][3] for record in applied] == [f"playbook@{n}" for n in range(2, 10)]
