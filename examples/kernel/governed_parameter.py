"""A parameter that changes only when somebody says so: how long a shop waits for its payment service.

A candidate is one value. A tuner proposes values and a replay of recorded payments judges them, but what looks better
is *held*, not used: the gate is `ask`. Somebody decides later, by a command in the run's inbox, which names the
candidate and the hash of the very content that was looked at. If nobody decides, nothing changes.

Parts: `Head` over `Versions`; `gate.all_of(improved, ask)`; `store.inbox` for decisions, which also wait for a run
that is not alive; `Versions.rollback`, which makes an old value the head again without losing what was there.
"""

from collections.abc import Sequence
from typing import Any

from atoll import candidate, cluster, control, evaluation, function, gate, store

KEY = "shop/timeout_seconds"
PAYMENTS = (0.4, 0.6, 0.7, 0.9, 1.1, 1.2, 1.5, 1.9, 2.2, 2.8, 3.9, 30.0, 30.0)  # seconds until an answer came


def replay(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Judges a timeout by what it would have done: a payment is worth 10, a second of waiting costs 1."""
    timeout = float(str(skeleton))
    paid = [seconds for seconds in PAYMENTS if seconds <= timeout]
    waited = sum(min(seconds, timeout) for seconds in PAYMENTS)
    return evaluation.Evaluation(10 * len(paid) - waited, metrics={"paid": len(paid), "waited": waited})


class Tuner:
    """Proposes a value in the neighbourhood of the one in use."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        (head,) = context.parents
        value = float(str(head.skeleton())) * context.rng.uniform(0.5, 2.0)
        return [head.clone(function.Text(f"{value:.1f}"))]


def build(kept: store.Store, run: str, steps: int = 20, *, seed: int = 0) -> cluster.Evolver:
    """Makes the run, or what goes on with it: an evolver on the same journal resumes."""
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text("1.0"), candidate_evaluator=replay))
    head = cluster.VersionedPopulation(kept.versions(), KEY, initial, function.Text, run_id=run)
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
        journal=kept.journal(run),
        inbox=kept.inbox(run),
        budget=control.Budget(iterations=steps),
        seed=seed,
        ordered=True,
    )
    return cluster.Evolver(config)


def held(kept: store.Store, run: str) -> Sequence[store.Row]:
    """Returns what waits for a decision, the best first."""
    waiting = (row for row in kept.candidates(run) if row.verdict == "hold")
    return sorted(waiting, key=lambda row: row.score or 0.0, reverse=True)


def decide(kept: store.Store, run: str, row: store.Row, verdict: gate.Verdict, reason: str, by: str) -> None:
    """Leaves a decision for the run: on this candidate with this content, and on no other."""
    seen = candidate.content_hash(row.content)
    kept.inbox(run).post("decide", candidate=row.id, content_hash=seen, verdict=verdict, reason=reason, by=by)


def show(kept: store.Store, when: str) -> None:
    head = kept.versions().get(KEY)
    print(f"{when:34} {KEY} = {head.value} (version {head.n}, by {head.author}: {head.reason})")


def main() -> None:
    with store.Store("sqlite://") as kept:
        run = kept.create_run()
        build(kept, run).run()
        best, second, *others = held(kept, run)
        show(kept, f"{len(others) + 2} better values, nobody decided:")

        decide(kept, run, best, "accept", "agreed in the Monday meeting", "ada")
        decide(kept, run, second, "accept", "looks good too", "bob")
        build(kept, run).run()  # the run had ended: going on with it carries the decisions out
        show(kept, "ada and bob approved one each:")
        print(f"{'':34} bob came second: {kept.candidates(run).get(second.id).reason}")

        kept.versions().rollback(KEY, 1, "customers complain about waiting", "ada")
        show(kept, "rolled back:")


if __name__ == "__main__":
    main()
