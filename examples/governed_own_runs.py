"""Evolves a parameter of Atoll's own runs: the maximum episode length of `examples/survival`.

Each run starts with the value in the store, and a replay of its journal gives the evidence. A shadow run compares a new
value by pairs of runs with equal seeds. An approver accepts it, the next run uses it, and a rollback restores the old
one. Running runs keep their value. No LLM is needed: `python examples/governed_own_runs.py`.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from atoll import config, governed, runs, store
from atoll.governed.evidence import attribution, reflectors, run_log
from atoll.governed.evidence.replayer import LogReplayer
from atoll.governed.rollout import evaluators, shadow_result, shadow_runner
from atoll.runs import baselines

KEY, SETTING = "survival/longest", "survival.max_turns"
TASK = Path(__file__).parent / "survival"
EPISODES, SEEDS = 1, 60


class LoopResult(NamedTuple):
    """Result of the loop.

    Attributes:
        used: Version and value of the parameter in each run.
        resumed: Version in a run that is resumed after the rollback.
        verdict: Verdict of the shadow run.
    """

    used: Sequence[tuple[int, int]]
    resumed: int
    verdict: str


def load_config(seed: int) -> config.RunConfig:
    """Returns the task with a parameter in place of a value, as `atoll run --set` does."""
    run: config.Sections = {"run": {"iterations": EPISODES, "seed": seed}}
    return config.load(TASK, [config.parse_set(f"{SETTING}=@param:{KEY}"), run])


def run_task(run_store: store.Store, seed: int) -> str:
    """Runs the task and returns the run id."""
    with runs.Session(run_store, load_config(seed)) as session:
        session.run()
    return session.run_id


def get_version(run_store: store.Store, run: str) -> tuple[int, int]:
    """Returns the version and the value of the parameter in a run."""
    settings = run_store.get_run(run).config
    return settings[config.PARAMETERS_KEY][SETTING]["version"], settings["survival"]["max_turns"]


def compute_mean_score(run_store: store.Store, run: str) -> float:
    """Returns the mean score of a run's episodes from its journal."""
    created_at = run_store.get_run(run).created_at
    log = run_log.RunLog(run_store.journal(run), run, created_at, group_by="island")
    aggregator = reflectors.AggregatorReflector()
    replayer = LogReplayer(log, log, attribution=attribution.by_decision)
    replayer.register(aggregator)
    replayer.replay(created_at, created_at.replace(year=created_at.year + 1))
    return aggregator.stats(aggregator.list_entities()[0], run_log.SCORE).mean


def run_shadow(parameters: governed.StoredParameters, value: int) -> shadow_result.ShadowResult:
    """Compares a value with the current one by pairs of runs, which leave nothing in the store."""
    pairs = baselines.PairedRuns(load_config(0), KEY, parameters.ledger, range(100, 100 + SEEDS))
    samples, apply, score = pairs.functions
    sampler = shadow_result.FixedSampler(list(samples()))
    runner = shadow_runner.ShadowRunner(parameters, evaluators.FuncEvaluator(score), sampler, apply, expected=40)
    return runner.run_shadow(pairs.parameter_name, value)


def main() -> LoopResult:
    """Runs, compares, proposes, approves, runs again and rolls back."""
    with tempfile.TemporaryDirectory() as folder, store.Store(f"{folder}/atoll.db") as run_store:
        parameters = governed.StoredParameters(run_store)
        parameters.set(KEY, 12, "short episodes are cheap", author="ann")
        first = run_task(run_store, 2)
        version, _ = get_version(run_store, first)
        print(f"run with {KEY}@{version} = 12: episodes of {compute_mean_score(run_store, first):.0f} ticks")

        shadow = run_shadow(parameters, 40)
        print(f"40 compared with 12, {shadow.sample_size} pairs of runs: {shadow.verdict}, {shadow.reason}")
        evolver = governed.Evolver(parameters, governed.DEFER)
        content = {"key": KEY, "value": 40, "expected_version": parameters.get(KEY).version}
        proposal = evolver.propose("optimize", "Live longer", content, "evolver", rationale=shadow.reason)
        reason = f"shadow run: {shadow.verdict}"
        is_better, content_hash = shadow.verdict == "promote", proposal.content_hash
        evolver.proposals.decide(proposal.id, "ann", approve=is_better, reason=reason, content_hash=content_hash)
        print(f"approved by ann: {[applied.outcome for applied in evolver.apply_approved()]}")

        second = run_task(run_store, 2)
        version, _ = get_version(run_store, second)
        print(f"next run with {KEY}@{version}: episodes of {compute_mean_score(run_store, second):.0f} ticks")
        parameters.rollback(KEY, 1, "to show the rollback", author="ann")
        third = run_task(run_store, 2)
        with runs.resume(run_store, second) as session:
            resumed = session.run_config.parameters[SETTING]["version"]
        used = [get_version(run_store, run) for run in (first, second, third)]
        print(f"after the rollback the next run has {KEY}@{used[2][0]} = {used[2][1]}; a resumed run keeps @{resumed}")
        return LoopResult(used, resumed, shadow.verdict)


if __name__ == "__main__":
    main()
