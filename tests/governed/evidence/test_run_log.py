"""Run logs: the journal of a run as decisions and feedback."""

from datetime import UTC, datetime, timedelta

import pytest

from atoll import cluster, control, errors, function, store
from atoll.candidate import Candidate
from atoll.governed.evidence import attribution, reflectors
from atoll.governed.evidence.replayer import LogReplayer
from atoll.governed.evidence.run_log import RunLog
from atoll.governed.rollout import proposers

START = datetime(2026, 4, 18, tzinfo=UTC)
FOREVER = (START - timedelta(days=1), START + timedelta(days=30))


class Nudge:
    """Moves a number by a small or a large step and names the step."""

    def propose(self, context):
        parent = context.parents[-1]
        engine = ("near", "far")[context.iteration % 2]
        value = float(parent.skeleton()()) + context.rng.gauss(0, {"near": 1, "far": 9}[engine])
        child = parent.clone(function.Text(f"{value:.3f}"))
        return [child.with_evaluation(Candidate("", f"{value:.3f}", meta={"engine": engine}))]


@pytest.fixture(scope="module")
def run():
    database = store.Store("sqlite://")
    props = function.DefaultFunctionProps(
        function.Text("0"), evaluation_inputs=[1], evaluator=lambda text, _: -abs(float(text()) - 30)
    )
    islands = cluster.IslandConfig(
        num_islands=2, num_selected_clusters=2, initial_fn=function.DefaultFunction(props), mutation_engine=Nudge()
    )
    id = database.create_run("r1")
    cluster.Evolver(
        cluster.EvolverConfig(
            islands,
            num_parallel=1,
            reset_period=None,
            budget=control.Budget(evaluations=40),
            journal=database.journal(id),
        )
    ).run()
    yield database.journal(id)
    database.close()


def test_run_log_has_a_decision_for_every_child(run):
    log = RunLog(run, "r1", START, group_by="island")
    entries = list(log.read(*FOREVER))
    assert 30 <= len(entries) <= 40
    assert {entry.entity for entry in entries} == {"island 0", "island 1"}
    assert entries[0].decision_id.startswith("r1/")
    assert {"content", "parents", "island"} <= set(entries[0].payload)
    records = log.query("island 0", START)
    assert {record.metric for record in records} == {"score", "gain", "accepted"}
    assert log.query("island 0", START, "gain") == [record for record in records if record.metric == "gain"]
    assert log.query("island 9", START) == []


def test_run_log_is_replayed_and_provides_evidence(run):
    log = RunLog(run, "r1", START, group_by="island")
    aggregator = reflectors.AggregatorReflector()
    replayer = LogReplayer(log, log, attribution=attribution.by_decision)
    replayer.register(aggregator)
    report = replayer.replay(*FOREVER)
    assert report.pending == 0
    assert aggregator.stats("island 0", "score").count + aggregator.stats("island 1", "score").count == report.entries
    result = proposers.EMAProposer(metric="gain")("engines/weight", log.query("island 0", START))
    assert result.confidence > 0.3


def test_run_log_groups_by_engine(run):
    log = RunLog(run, "r1", START)
    assert {entry.entity for entry in log.read(*FOREVER)} == {"near", "far"}
    assert {entry.action for entry in log.read(*FOREVER)} == {"near", "far"}
    assert len(log.query("near", START, "score")) > 10


def test_run_log_rejects_feedback(run):
    log = RunLog(run, "r1", START)
    with pytest.raises(errors.SetupError, match="another channel"):
        log.report("e", "m", 1.0)
    with pytest.raises(errors.SetupError, match="use engine or island"):
        RunLog(run, "r1", START, group_by="moon")
