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
MAX_WINDOW = 8


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns nothing: a folder of this system says so in its `atoll.toml`."""
    return None


def build(task: Task, options: Options, context: system.BuildContext) -> system.BuiltSystem:
    """Makes the parts of a run.

    Raises:
        SetupError: The problems cannot be read, or the settings do not fit the model.
    """
    problem_set = subject.load_problem_set(task, options, context)
    try:
        return assemble(problem_set, options, context.llm)
    except BaseException:
        problem_set.close()
        raise


def assemble(problem_set: subject.ProblemSet, options: Options, model: llm.LLM | None) -> system.BuiltSystem:
    """Makes the parts of a run from its problems.

    Raises:
        SetupError: The settings do not fit the model.
    """
    method = methods.make_method(options, len(problem_set.problems), has_llm=model is not None)
    _check_llm_options(options, model)
    base = function.DefaultFunction(function.DefaultFunctionProps(function.Text(BASE), candidate_evaluator=problem_set.evaluator))
    status = standing.ProblemStatus(method.clock, patience=method.patience, epsilon=options.epsilon)
    island_config = cluster.IslandConfig(
        num_islands=method.clock.num_islands * len(problem_set.problems),
        num_selected_clusters=options.num_parent,
        initial_fn=base,
        mutation_engine=_make_proposer(problem_set, method, options, base, model),
        fitness=make_island_fitness(options, method.clock.num_islands),
        make_population=pool.make_populations(
            method.parent_sampling,
            method.clock.num_islands,
            len(problem_set.problems),
            options.num_candidate,
            shows_elites=_selects_elites_by_llm(options, model),
        ),
    )
    config = cluster.EvolverConfig(
        island_config,
        schedule=method.schedule,
        learner=status,
        stop_rules=[status.stop_rule],
        reset_period=None,
        window=min(MAX_WINDOW, len(problem_set.problems)),
    )
    conclusion = result.RunConclusion(problem_set, status, options.method)
    report = _make_report(problem_set, method, options, model)
    return system.BuiltSystem(config, report, problem_set.files, problem_set.sandbox, conclusion.close, conclusion, summarize_candidate=judge.summarize_candidate)


def make_island_fitness(options: Options, num_islands: int) -> fitness.IslandFitness:
    """Returns how islands rank: one island alone by the common weights, several by their strategies."""
    common_weights = fitness.parse_weights(options.weights)
    if num_islands == 1 or not options.strategies:
        return fitness.IslandFitness([common_weights], num_islands)
    return fitness.IslandFitness([fitness.STRATEGIES[name] for name in options.strategies], num_islands)


def _make_proposer(
    problem_set: subject.ProblemSet, method: methods.SearchMethod, options: Options, base: function.Function, model: llm.LLM | None
) -> function.Proposer:
    if model is None:
        num_turns = method.conversation_config.num_turns
        return wandering.TraceMutator(problem_set.problems, base, method.clock, num_turns, method.is_memoryless)
    selects_elites = _selects_elites_by_llm(options, model)
    return rcc.ConversationMutator(
        model, problem_set.problems, base, method.schedule, method.conversation_config, method.prompt_builder, selects_elites=selects_elites
    )


def _selects_elites_by_llm(options: Options, model: llm.LLM | None) -> bool:
    return model is not None and options.elect == "model" and options.method == "mind"


def _check_llm_options(options: Options, model: llm.LLM | None) -> None:
    if options.second_gen and not options.second_llm:
        raise errors.SetupError("mind.second_gen needs mind.second_llm: name one of the models of --llm.")
    if model is None and (options.second_llm or options.critic_llm):
        raise errors.SetupError("mind.second_llm and mind.critic_llm name models of --llm: give several with commas.")


def _make_report(
    problem_set: subject.ProblemSet, method: methods.SearchMethod, options: Options, model: llm.LLM | None
) -> Mapping[str, JSON]:
    clock, parent_sampling = method.clock, method.parent_sampling
    max_plans = clock.num_islands * clock.num_convs * clock.num_gens * method.conversation_config.num_turns
    conversations_text = f"{clock.num_convs} conversations of {method.conversation_config.num_turns} turns"
    strategies: Sequence[str] = options.strategies if clock.num_islands > 1 else ()
    return {
        "problems": problem_set.source,
        "method": options.method,
        "engine": "traces, recombined and changed; no LLM" if model is None else f"LLM, {options.pattern}",
        "islands": f"{clock.num_islands} a problem{': ' + ', '.join(strategies) if strategies else ''}",
        "search": f"{clock.num_gens} generations of {conversations_text} an island: at most {max_plans:,} plans a problem",
        "parents": f"0 to {parent_sampling.num_parents}, none in {parent_sampling.pr_no_parents:.2f} of all",
        "weights": list(options.weights),
        **problem_set.report,
    }
