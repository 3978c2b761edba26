"""Puts a search over worldlines together: on the kernel, with a model or without."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import cluster, errors, function, llm, system
from atoll.candidate import JSON
from atoll.mind import fitness, judge, methods, pool, rcc, result, standing, subject, wandering
from atoll.mind.config import Options, Task
from atoll.mind.worldline import BASE

__all__ = ["Options", "Task", "build", "discover"]

# Steps in flight of a deterministic run, and no more than problems: a step has then seen all earlier ones of its own
# problem, and islands go one after the other, as in the paper.
WIDEST = 8


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns nothing: a folder of this system says so in its `atoll.toml`."""
    return None


def build(task: Task, options: Options, parts: system.Parts) -> system.Built:
    """Makes the parts of a run.

    Raises:
        SetupError: The problems cannot be read, or the settings do not fit the model.
    """
    about = subject.make(task, options, parts)
    try:
        return assemble(about, options, parts.llm)
    except BaseException:
        about.close()
        raise


def assemble(about: subject.Subject, options: Options, model: llm.LLM | None) -> system.Built:
    """Makes the parts of a run from its problems.

    Raises:
        SetupError: The settings do not fit the model.
    """
    method = methods.make(options, len(about.problems), has_model=model is not None)
    _check(options, model)
    base = function.DefaultFunction(function.DefaultFunctionProps(function.Text(BASE), judge=about.judge))
    known = standing.Standing(method.rounds, patience=method.patience, epsilon=options.epsilon)
    islands = cluster.IslandConfig(
        num_islands=method.rounds.num_islands * len(about.problems),
        num_selected_clusters=options.num_parent,
        initial_fn=base,
        mutation_engine=_engine(about, method, options, base, model),
        rank=ranking(options, method.rounds.num_islands),
        make_pool=pool.make_pools(
            method.mating,
            method.rounds.num_islands,
            len(about.problems),
            options.num_candidate,
            shown=_elects(options, model),
        ),
    )
    config = cluster.EvolverConfig(
        islands,
        schedule=method.schedule,
        learner=known,
        stop_rules=[known.stop_rule],
        reset_period=None,
        window=min(WIDEST, len(about.problems)),
    )
    finish = result.Conclusion(about, known, options.method)
    report = _report(about, method, options, model)
    return system.Built(config, report, about.files, about.sandbox, finish.close, finish, caption=judge.caption)


def ranking(options: Options, num_islands: int) -> fitness.Ranking:
    """Returns how islands rank: one island alone by the common weights, several by their strategies."""
    common = fitness.weights_of(options.weights)
    if num_islands == 1 or not options.strategies:
        return fitness.Ranking([common], num_islands)
    return fitness.Ranking([fitness.STRATEGIES[name] for name in options.strategies], num_islands)


def _engine(
    about: subject.Subject, method: methods.Method, options: Options, base: function.Function, model: llm.LLM | None
) -> function.Proposer:
    if model is None:
        turns = method.manner.num_turns
        return wandering.Wandering(about.problems, base, method.rounds, turns, method.is_fresh)
    asks = _elects(options, model)
    return rcc.Conversations(
        model, about.problems, base, method.schedule, method.manner, method.prompter, asks_elite=asks
    )


def _elects(options: Options, model: llm.LLM | None) -> bool:
    return model is not None and options.elect == "model" and options.method == "mind"


def _check(options: Options, model: llm.LLM | None) -> None:
    if options.second_gen and not options.second_llm:
        raise errors.SetupError("mind.second_gen needs mind.second_llm: name one of the models of --llm.")
    if model is None and (options.second_llm or options.critic_llm):
        raise errors.SetupError("mind.second_llm and mind.critic_llm name models of --llm: give several with commas.")


def _report(
    about: subject.Subject, method: methods.Method, options: Options, model: llm.LLM | None
) -> Mapping[str, JSON]:
    turns, mating = method.rounds, method.mating
    plans = turns.num_islands * turns.num_convs * turns.num_gens * method.manner.num_turns
    talk = f"{turns.num_convs} conversations of {method.manner.num_turns} turns"
    strategies: Sequence[str] = options.strategies if turns.num_islands > 1 else ()
    return {
        "problems": about.source,
        "method": options.method,
        "engine": "traces, recombined and changed; no LLM" if model is None else f"LLM, {options.pattern}",
        "islands": f"{turns.num_islands} a problem{': ' + ', '.join(strategies) if strategies else ''}",
        "search": f"{turns.num_gens} generations of {talk} an island: at most {plans:,} plans a problem",
        "parents": f"0 to {mating.num_parents}, none in {mating.pr_no_parents:.2f} of all",
        "weights": list(options.weights),
        **about.extra,
    }
