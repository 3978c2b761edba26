"""A playbook that is judged by living with it: rules for an islander who does not know what is good to eat.

A candidate is a whole playbook, a list of rules such as "avoid red berry". Nobody can tell from its text whether it is
good: that shows after it was kept, when a day was lived by it. So a playbook is first judged by its form alone, a
curator lets it in, it becomes the head of a version history, and then the true judgement replaces the first one:
`task.observe`. The next proposal finds it in its parent, and there is no second loop.

Parts: `Head`, the pool of one, over `Versions`; the curator as the gate; a reflector as the engine, which observes a
head that nobody has lived by yet and otherwise draws one lesson; one step in flight, because each builds on the last.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from atoll import cluster, control, evaluation, function, gate, store

KEY = "playbook/food"
WORLD = {  # what a day brings, and what eating it does
    "blue berry": 2,
    "red berry": -3,
    "white mushroom": 1,
    "spotted mushroom": -4,
    "fresh fish": 3,
    "spotted fish": -2,
}


def rules_of(playbook: object) -> list[str]:
    return [line.removeprefix("avoid ") for line in str(playbook).splitlines()]


def matches(rule: str, thing: str) -> bool:
    return set(rule.split()) <= set(thing.split())


def check_form(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Judges what can be judged before a playbook is used: that it can be read."""
    if not all(line.startswith("avoid ") for line in str(skeleton).splitlines()):
        return evaluation.failed('A line is no rule: each must begin with "avoid".')
    return evaluation.Evaluation(0.0, feedback="nobody has lived by it yet")


def live_a_day(playbook: object) -> evaluation.Evaluation:
    """Eats what no rule forbids; in the evening the neighbours tell what else was good."""
    avoided = {thing for thing in WORLD if any(matches(rule, thing) for rule in rules_of(playbook))}
    eaten = {thing: energy for thing, energy in WORLD.items() if thing not in avoided}
    missed = [thing for thing in avoided if WORLD[thing] > 0]
    worst = min(eaten, key=lambda thing: eaten[thing], default="")
    feedback = f"missed {min(missed)}" if missed else f"ill from {worst}" if eaten[worst] < 0 else "all went well"
    energy = sum(eaten.values())
    return evaluation.Evaluation(energy, metrics={"energy": energy}, feedback=feedback)


class Reflector:
    """Lives a day by a new head, and turns the feedback of a day into one change."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        (head,) = context.parents
        found, rules = head.evaluation, rules_of(head.skeleton())
        if found is None or "energy" not in found.metrics:
            context.update_evaluation(head, live_a_day(head.skeleton()))
            return []
        match found.feedback.split():
            case ["missed", *thing]:  # a rule was too broad: drop it
                rules = [rule for rule in rules if not matches(rule, " ".join(thing))]
            case ["ill", "from", kind, name]:  # a lesson: hasty ones are shorter
                rules.append(context.rng.choice((f"{kind} {name}", kind, name)))
            case _:
                return []
        return [head.clone(function.Text("\n".join(f"avoid {rule}" for rule in rules)))]


def curate(proposal: gate.Proposal) -> gate.Decision:
    """Keeps a playbook short: no rule may say again what another one says."""
    rules = rules_of(proposal.candidate.content)
    for rule in rules:
        for other in rules:
            if rule is not other and matches(other, rule):
                return gate.Decision("reject", f'"avoid {other}" makes "avoid {rule}" idle', "curator")
    lesson = proposal.parent_evaluations[0].feedback if proposal.parent_evaluations else "a beginning"
    return gate.Decision("accept", lesson, "curator")


def build(kept: store.Store, run: str, steps: int = 40, *, seed: int = 0) -> cluster.Evolver:
    initial = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text("avoid fish"), candidate_evaluator=check_form)
    )
    head = cluster.VersionedPopulation(kept.versions(), KEY, initial, function.Text, run_id=run)
    config = cluster.EvolverConfig(
        cluster.IslandConfig(
            1, 1, initial, Reflector(), gate=curate, make_population=lambda island, rng, announce: head
        ),
        num_parallel=1,
        reset_period=None,
        journal=kept.journal(run),
        budget=control.Budget(iterations=steps),
        seed=seed,
    )
    return cluster.Evolver(config)


def history(kept: store.Store, evolver: cluster.Evolver) -> Iterator[tuple[str, float | None, str]]:
    """Yields every version with the energy of a day lived by it and the reason why it was made."""
    for version in kept.versions().history(KEY):
        found = evolver.islands[0].population.get(version.id).evaluation
        yield version.value, found.metrics.get("energy") if found else None, version.reason


def main() -> None:
    with store.Store("sqlite://") as kept:
        run = kept.create_run()
        evolver = build(kept, run)
        evolver.run()
        for number, (playbook, energy, reason) in enumerate(history(kept, evolver), start=1):
            print(f"version {number}: energy {energy:+.0f}  {'; '.join(playbook.splitlines()):55}  because: {reason}")
        for row in kept.candidates(run):
            if row.verdict == "reject":
                print(f"not kept: {'; '.join(row.content.splitlines())}, because {row.reason}")


if __name__ == "__main__":
    main()
