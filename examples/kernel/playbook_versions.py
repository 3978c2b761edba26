"""A playbook that is evaluated by use: rules for an islander who does not know what is good to eat.

A candidate is a whole playbook, a list of rules such as "avoid red berry". Its text does not show whether it is good;
only a day with it does. So the first evaluation checks only its form, and a curator accepts it as the current version.
After a day, `context.update_evaluation` replaces the evaluation. The next proposal reads it from its parent.

Parts: `VersionedPopulation`, with one current version in `Versions`; a curator as the gate; a reflector as the
proposer, which either tests a new version for a day or changes one rule. Only one iteration runs at a time, because
each builds on the last.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from atoll import cluster, control, evaluation, function, gate, store

KEY = "playbook/food"
WORLD = {  # food of a day, and the energy from eating it
    "blue berry": 2,
    "red berry": -3,
    "white mushroom": 1,
    "spotted mushroom": -4,
    "fresh fish": 3,
    "spotted fish": -2,
}


def parse_rules(playbook: object) -> list[str]:
    return [line.removeprefix("avoid ") for line in str(playbook).splitlines()]


def matches(rule: str, thing: str) -> bool:
    return set(rule.split()) <= set(thing.split())


def check_form(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Checks the form of a playbook before its use."""
    if not all(line.startswith("avoid ") for line in str(skeleton).splitlines()):
        return evaluation.failed('A line is not a rule. Begin each line with "avoid".')
    return evaluation.Evaluation(0.0, feedback="not tested yet")


def live_a_day(playbook: object) -> evaluation.Evaluation:
    """Eats everything that no rule forbids, and learns in the evening which other food was good."""
    avoided = {thing for thing in WORLD if any(matches(rule, thing) for rule in parse_rules(playbook))}
    eaten = {thing: energy for thing, energy in WORLD.items() if thing not in avoided}
    missed = [thing for thing in avoided if WORLD[thing] > 0]
    worst = min(eaten, key=lambda thing: eaten[thing], default="")
    feedback = f"missed {min(missed)}" if missed else f"ill from {worst}" if eaten[worst] < 0 else "all went well"
    energy = sum(eaten.values())
    return evaluation.Evaluation(energy, metrics={"energy": energy}, feedback=feedback)


class Reflector:
    """Tests a new version for a day, and turns the feedback of a day into one change."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        (head,) = context.parents
        result, rules = head.evaluation, parse_rules(head.skeleton())
        if result is None or "energy" not in result.metrics:
            context.update_evaluation(head, live_a_day(head.skeleton()))
            return []
        match result.feedback.split():
            case ["missed", *thing]:  # a rule was too broad, so drop it
                rules = [rule for rule in rules if not matches(rule, " ".join(thing))]
            case ["ill", "from", kind, name]:  # add a rule; a shorter one is broader
                rules.append(context.rng.choice((f"{kind} {name}", kind, name)))
            case _:
                return []
        return [head.clone(function.Text("\n".join(f"avoid {rule}" for rule in rules)))]


def curate(proposal: gate.Proposal) -> gate.Decision:
    """Rejects a playbook in which one rule covers another."""
    rules = parse_rules(proposal.candidate.content)
    for rule in rules:
        for other in rules:
            if rule is not other and matches(other, rule):
                return gate.Decision("reject", f'"avoid {other}" covers "avoid {rule}"', "curator")
    lesson = proposal.parent_evaluations[0].feedback if proposal.parent_evaluations else "a beginning"
    return gate.Decision("accept", lesson, "curator")


def build(database: store.Store, run: str, steps: int = 40, *, seed: int = 0) -> cluster.Evolver:
    initial = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text("avoid fish"), candidate_evaluator=check_form)
    )
    head = cluster.VersionedPopulation(database.versions(), KEY, initial, function.Text, run_id=run)
    config = cluster.EvolverConfig(
        cluster.IslandConfig(
            1, 1, initial, Reflector(), gate=curate, make_population=lambda island, rng, announce: head
        ),
        num_parallel=1,
        reset_period=None,
        journal=database.journal(run),
        budget=control.Budget(iterations=steps),
        seed=seed,
    )
    return cluster.Evolver(config)


def history(database: store.Store, evolver: cluster.Evolver) -> Iterator[tuple[str, float | None, str]]:
    """Yields every version with its energy and its reason."""
    for version in database.versions().history(KEY):
        result = evolver.islands[0].population.get(version.id).evaluation
        yield version.value, result.metrics.get("energy") if result else None, version.reason


def main() -> None:
    with store.Store("sqlite://") as database:
        run = database.create_run()
        evolver = build(database, run)
        evolver.run()
        for version, (playbook, energy, reason) in enumerate(history(database, evolver), start=1):
            print(f"version {version}: energy {energy:+.0f}  {'; '.join(playbook.splitlines()):55}  because: {reason}")
        for row in database.candidates(run):
            if row.verdict == "reject":
                print(f"rejected: {'; '.join(row.content.splitlines())}, because {row.reason}")


if __name__ == "__main__":
    main()
