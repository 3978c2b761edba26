"""The loop closed on Atoll's own runs: how long lives in `examples/survival` may last is a parameter, and it evolves.

Runs begin with the value that the store holds; their journals are replayed for evidence; another value is shadowed by
pairs of runs on the same seeds; somebody approves; the next run uses it; a rollback brings the old one back. Nothing
under way ever changes. No key, no model: `python examples/governed_own_runs.py`.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from atoll import config, governed, runs, store
from atoll.governed.evidence import attribution, reflectors, run_log
from atoll.governed.evidence import replayer as evidence_replayer
from atoll.governed.rollout import evaluators, shadow_result, shadow_runner
from atoll.runs import paired_runs

KEY, SETTING = "survival/longest", "survival.max_turns"
TASK = Path(__file__).parent / "survival"
LIVES, SEEDS = 1, 60


class Loop(NamedTuple):
    """How it went.

    Attributes:
        used: Version and value of the parameter in each run.
        resumed: The version that a run has which goes on after a rollback.
        verdict: Of the shadow run.
    """

    used: Sequence[tuple[int, int]]
    resumed: int
    verdict: str


def planned(seed: int) -> config.RunConfig:
    """Returns the task with the parameter in place of a value; `--set` of `atoll run` does the same."""
    run: config.Sections = {"run": {"iterations": LIVES, "seed": seed}}
    return config.load(TASK, [config.parse_set(f"{SETTING}=@param:{KEY}"), run])


def lived(kept: store.Store, seed: int) -> str:
    """Runs the task and returns the run's id."""
    with runs.Session(kept, planned(seed)) as session:
        session.run()
    return session.run_id


def version_of(kept: store.Store, run: str) -> tuple[int, int]:
    """Returns the version of the parameter that was in force in a run, and its value."""
    said = kept.get_run(run).config
    return said[config.PARAMETERS_KEY][SETTING]["version"], said["survival"]["max_turns"]


def mean_score(kept: store.Store, run: str) -> float:
    """The evidence: what came of each life, from the run's own journal."""
    begun = kept.get_run(run).created_at
    log = run_log.RunLog(kept.journal(run), run, begun, group_by="island")
    aggregator = reflectors.AggregatorReflector()
    replayer = evidence_replayer.LogReplayer(log, log, attribution=attribution.by_decision)
    replayer.register(aggregator)
    replayer.replay(begun, begun.replace(year=begun.year + 1))
    return aggregator.stats(aggregator.list_entities()[0], run_log.SCORE).mean


def shadowed(known: governed.StoredParameters, value: int) -> shadow_result.ShadowResult:
    """Compares a value with the present one by pairs of runs, which leave nothing in the store."""
    made = paired_runs.PairedRuns(planned(0), KEY, known.ledger, range(100, 100 + SEEDS))
    samples, apply, score = made.functions
    sampler = shadow_result.FixedSampler(list(samples()))
    runner = shadow_runner.ShadowRunner(known, evaluators.FuncEvaluator(score), sampler, apply, expected=40)
    return runner.run_shadow(made.parameter_name, value)


def main() -> Loop:
    """Runs, looks, proposes, shadows, has it approved, runs again, goes back."""
    with tempfile.TemporaryDirectory() as folder, store.Store(f"{folder}/atoll.db") as kept:
        known = governed.StoredParameters(kept)
        known.set(KEY, 12, "short lives are cheap", author="ann")
        first = lived(kept, 2)
        print(f"a run with {KEY}@{version_of(kept, first)[0]} = 12: lives of {mean_score(kept, first):.0f} ticks")

        seen = shadowed(known, 40)
        print(f"40 beside 12, {seen.sample_size} pairs of runs: {seen.verdict}, {seen.reason}")
        desk = governed.Evolver(known, governed.DEFER)
        content = {"key": KEY, "value": 40, "expected_version": known.get(KEY).version}
        wish = desk.propose("optimize", "Live longer", content, "evolver", rationale=seen.reason)
        desk.proposals.decide(wish.id, "ann", approve=seen.verdict == "promote", reason=f"shadow run: {seen.verdict}")
        print(f"approved by ann: {[each.outcome for each in desk.apply_approved()]}")

        second = lived(kept, 2)
        print(f"the next run has {KEY}@{version_of(kept, second)[0]}: lives of {mean_score(kept, second):.0f} ticks")
        known.rollback(KEY, 1, "to show the way back", author="ann")
        third = lived(kept, 2)
        with runs.resume(kept, second) as again:
            resumed = again.plan.parameters[SETTING]["version"]
        used = [version_of(kept, run) for run in (first, second, third)]
        print(f"after a rollback the next one has {KEY}@{used[2][0]} = {used[2][1]}; one that goes on keeps @{resumed}")
        return Loop(used, resumed, seen.verdict)


if __name__ == "__main__":
    main()
