"""A parameter that changes only after approval: the timeout of a shop for its payment service.

A candidate is one value. A tuner proposes values, and recorded payments score them. The gate *holds* better values
instead of accepting them. An approver decides later with a command in the inbox of the run. The command names the
candidate and its content hash. Without a decision, nothing changes.

Parts: `VersionedPopulation` over `Versions`; `gate.require_all(require_improvement(), hold_all)`; `store.inbox`, which
keeps decisions until the run resumes; `Versions.rollback`, which makes an old value current and keeps the history.
"""

from collections.abc import Sequence
from typing import Any

from atoll import candidate, cluster, control, evaluation, function, gate, store

KEY = "shop/timeout_seconds"
PAYMENTS = (0.4, 0.6, 0.7, 0.9, 1.1, 1.2, 1.5, 1.9, 2.2, 2.8, 3.9, 30.0, 30.0)  # seconds until a response


def replay(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Scores a timeout on the recorded payments: a payment is worth 10, a second of waiting costs 1."""
    timeout = float(str(skeleton))
    paid = [seconds for seconds in PAYMENTS if seconds <= timeout]
    waited = sum(min(seconds, timeout) for seconds in PAYMENTS)
    return evaluation.Evaluation(10 * len(paid) - waited, metrics={"paid": len(paid), "waited": waited})


class Tuner:
    """Proposes a value near the current one."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        (head,) = context.parents
        value = float(str(head.skeleton())) * context.rng.uniform(0.5, 2.0)
        return [head.clone(function.Text(f"{value:.1f}"))]


def build(database: store.Store, run: str, steps: int = 20, *, seed: int = 0) -> cluster.Evolver:
    """Builds the evolver. With the journal of an earlier run, it resumes that run."""
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text("1.0"), candidate_evaluator=replay))
    head = cluster.VersionedPopulation(database.versions(), KEY, initial, function.Text, run_id=run)
    config = cluster.EvolverConfig(
        cluster.IslandConfig(
            num_islands=1,
            num_selected_clusters=1,
            initial_fn=initial,
            mutation_engine=Tuner(),
            gate=gate.require_all(gate.require_improvement(), gate.hold_all),
            make_population=lambda island, rng, announce: head,
        ),
        reset_period=None,
        journal=database.journal(run),
        inbox=database.inbox(run),
        budget=control.Budget(iterations=steps),
        seed=seed,
        ordered=True,
    )
    return cluster.Evolver(config)


def held(database: store.Store, run: str) -> Sequence[store.Row]:
    """Returns the held candidates, best first."""
    held_rows = (row for row in database.candidates(run) if row.verdict == "hold")
    return sorted(held_rows, key=lambda row: row.score or 0.0, reverse=True)


def decide(database: store.Store, run: str, row: store.Row, verdict: gate.Verdict, reason: str, by: str) -> None:
    """Posts a decision for the run. It is valid only for this candidate with this content."""
    content_hash = candidate.content_hash(row.content)
    database.inbox(run).post(
        "decide", candidate=row.id, content_hash=content_hash, verdict=verdict, reason=reason, by=by
    )


def show(database: store.Store, when: str) -> None:
    head = database.versions().get(KEY)
    print(f"{when:34} {KEY} = {head.value} (version {head.n}, by {head.author}: {head.reason})")


def main() -> None:
    with store.Store("sqlite://") as database:
        run = database.create_run()
        build(database, run).run()
        best, second, *others = held(database, run)
        show(database, f"{len(others) + 2} better values, no decision:")

        decide(database, run, best, "accept", "agreed in the Monday meeting", "ada")
        decide(database, run, second, "accept", "looks good too", "bob")
        build(database, run).run()  # the run had ended; resuming it applies the decisions
        show(database, "ada and bob approved one each:")
        print(f"{'':34} bob came second: {database.candidates(run).get(second.id).reason}")

        database.versions().rollback(KEY, 1, "customers complain about waiting", "ada")
        show(database, "rolled back:")


if __name__ == "__main__":
    main()
