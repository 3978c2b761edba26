"""Builds a search over worldlines, with or without an LLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atoll import cluster, errors, function, llm, strategies, system
from atoll.candidate import JSON
from atoll.mind import conversations, fitness, generations, plan_evaluator, population, problems, prompts, trace_mutator
from atoll.mind.config import Options, Task
from atoll.mind.worldline import BASE


@dataclass(slots=True)
class RunConclusion:
    """Summarizes a finished run. A separate process compares the plans with the solutions, if the file has them."""

    problem_set: problems.ProblemSet
    status: generations.ProblemStatus
    method: str
    _saved: Mapping[str, JSON] | None = None

    def close(self) -> None:
        """Saves the best plans, then closes the problem set. Can be called twice."""
        try:
            if self._saved is None:
                self._saved = {}  # set first: after a failure the set is closed and cannot save
                self._saved = self.problem_set.save_best(self.get_best_plans())
        finally:
            self.problem_set.close()

    def __call__(self, evolver: cluster.Evolver) -> Mapping[str, JSON]:
        plans = self.get_best_plans()
        grades = self.problem_set.grade(plans) if plans else {}
        rows = [self._make_row(index, grades) for index in range(len(self.problem_set.problems))]
        usage, count = evolver.usage, max(1, len(rows))
        return {
            "method": self.method,
            "solved": sum(bool(row["solved"]) for row in rows),
            "total": len(rows),
            **self._describe_scoring(),
            "graded": "by the file's solutions"
            if any(grade is not None for grade in grades.values())
            else "by the task",
            "calls": usage.cost.calls,
            "evaluations": usage.evaluations,
            "tokens": usage.cost.tokens_in + usage.cost.tokens_out,
            "evaluations_per_problem": round(sum(len(state.evaluated) for state in self.status.states) / count, 1),
            "ended": ", ".join(generations.count_reasons(self.status.states)),
            **(self._saved or {}),
            "instances": rows,
        }

    def _describe_scoring(self) -> dict[str, JSON]:
        """Returns what a score means, if it means the same for all problems."""
        texts = {problem.target for problem in self.problem_set.problems}
        return {"scoring": texts.pop()} if len(texts) == 1 and any(texts) else {}

    def get_best_plans(self) -> dict[str, str]:
        """Returns the best plan of each problem that has one."""
        pairs = zip(self.problem_set.problems, self.status.states, strict=True)
        return {
            problem.id: plan_evaluator.get_plan(str(state.best.skeleton()))
            for problem, state in pairs
            if state.best is not None
        }

    def _make_row(self, index: int, grades: Mapping[str, bool | None]) -> dict[str, JSON]:
        problem, state = self.problem_set.problems[index], self.status.states[index]
        evaluation = state.best.evaluation if state.best is not None else None
        grade = grades.get(problem.id)
        return {
            "id": problem.id,
            "solved": plan_evaluator.is_solved(evaluation) if grade is None else grade,
            "score": evaluation.metrics.get(plan_evaluator.SCORE) if evaluation is not None else None,
            "evaluations": len(state.evaluated),
            "calls": state.calls,
            "tokens": state.tokens,
            "usd": round(state.usd, 6),
            "candidate": population.get_id(state.best) if state.best is not None else "",
            "ended": state.reason or "the run ended first",
        }


GENS_WITH_LLM, GENS_WITHOUT_LLM = 10, 40
TURNS_WITH_LLM, TURNS_WITHOUT_LLM = 4, 8
PATIENCE_WITH_LLM, PATIENCE_WITHOUT_LLM = 3, 20


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """Parts of a search method: schedule, parent selection, conversations and the end of the search."""

    schedule: generations.GenerationSchedule
    parent_sampling: population.ParentSampling
    conversation_config: conversations.ConversationConfig
    prompt_builder: prompts.PlanPromptBuilder
    patience: int
    is_memoryless: bool = False

    @property
    def clock(self) -> generations.GenerationClock:
        return self.schedule.clock


def make_method(
    options: Options,
    num_problems: int,
    *,
    has_llm: bool,
    chosen: strategies.Chosen = strategies.Chosen(),  # noqa: B008
) -> SearchMethod:
    """Returns the method that the options select.

    The baselines are special cases. `one_pass` makes one plan. `best_of_n` makes N independent plans. `sequential`
    has a few long conversations that see all of their earlier plans.
    """
    num_gens = options.num_gens or (GENS_WITH_LLM if has_llm else GENS_WITHOUT_LLM)
    num_turns = options.num_seq or (TURNS_WITH_LLM if has_llm else TURNS_WITHOUT_LLM)
    num_plans = options.num_plans or num_gens * options.num_islands * options.num_convs * num_turns
    prompt_builder = prompts.PlanPromptBuilder(
        options.critic, options.feedback, options.questions, has_tools=options.num_tools > 0
    )
    conversation_config = conversations.ConversationConfig(
        options.pattern,
        num_turns,
        options.num_retries,
        options.memory_tokens,
        options.num_repeats,
        options.critic_llm,
        options.second_llm,
        options.second_gen,
        num_tools=options.num_tools,
        num_forks=options.num_forks,
        roles=options.roles,
        role_calls=options.role_calls,
    )
    if options.method == "mind":
        default_patience = PATIENCE_WITH_LLM if has_llm else PATIENCE_WITHOUT_LLM
        patience = default_patience if options.patience is None else options.patience
        max_gens = 2 * num_gens if _has_two_stages(options) else num_gens
        clock = generations.GenerationClock(num_problems, options.num_islands, options.num_convs, max_gens)
        parent_sampling = population.ParentSampling(
            options.num_parent,
            options.pr_no_parents,
            options.temperature,
            options.population,
            chosen.selector.make if chosen.selector and chosen.selector.factory else None,
        )
        return SearchMethod(
            _make_schedule(options, clock), parent_sampling, conversation_config, prompt_builder, patience
        )
    no_parents = population.ParentSampling(1, 1.0, options.temperature, options.population)
    batch_size = next(size for size in (10, 8, 6, 5, 4, 3, 2, 1) if num_plans % size == 0)  # plans per iteration
    num_convs, num_turns, num_gens = {
        "one_pass": (1, 1, 1),
        "best_of_n": (1, batch_size, num_plans // batch_size),
        "sequential": (min(num_plans, options.num_threads), max(1, num_plans // options.num_threads), 1),
    }[options.method]
    clock = generations.GenerationClock(num_problems, 1, num_convs, num_gens)
    is_memoryless = options.method != "sequential"
    baseline_config = conversations.ConversationConfig(
        options.pattern,
        num_turns,
        options.num_retries,
        memory_tokens=None,
        is_memoryless=is_memoryless,
        num_tools=options.num_tools,
    )
    return SearchMethod(_make_schedule(options, clock), no_parents, baseline_config, prompt_builder, 0, is_memoryless)


def _has_two_stages(options: Options) -> bool:
    """Returns whether each problem gets a second stage after an unsuccessful first one."""
    return options.method == "mind" and options.second_llm is not None and not options.second_gen


def _make_schedule(options: Options, clock: generations.GenerationClock) -> generations.GenerationSchedule:
    return generations.GenerationSchedule(
        clock,
        options.num_emigrate,
        options.migration_interval,
        options.reset_interval,
        options.num_reset,
        options.num_top,
        options.num_candidate,
        generations.select_by_fitness if options.elect == "fitness" else generations.select_diverse,
    )


__all__ = ["Options", "Task", "build"]

# Parallel iterations of a deterministic run, at most one per problem. Each iteration then sees all earlier ones of its
# problem, and the islands of a problem run one after the other, as in the paper.
MAX_WINDOW = 8


def build(task: Task, options: Options, context: system.BuildContext) -> system.BuiltSystem:
    """Builds the parts of a run.

    Raises:
        SetupError: The problems cannot be read, or the settings do not fit the LLM.
    """
    problem_set = problems.load_problem_set(task, options, context)
    try:
        return assemble(problem_set, options, context.llm, strategies.choose("mind", options, context.folder))
    except BaseException:
        problem_set.close()
        raise


def assemble(
    problem_set: problems.ProblemSet,
    options: Options,
    model: llm.LLM | None,
    chosen: strategies.Chosen = strategies.Chosen(),  # noqa: B008 - frozen
) -> system.BuiltSystem:
    """Builds the parts of a run from a problem set.

    Raises:
        SetupError: The settings do not fit the LLM.
    """
    method = make_method(options, len(problem_set.problems), has_llm=model is not None, chosen=chosen)
    _check_llm_options(options, model)
    base = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(BASE), candidate_evaluator=problem_set.evaluator)
    )
    # A search with an LLM also ends when the LLM repeats itself. Each further attempt would cost a call.
    ends_stale = model is not None and options.method == "mind" and options.num_repeats > 0
    status = generations.ProblemStatus(
        method.clock,
        patience=method.patience,
        epsilon=options.epsilon,
        max_stale=options.num_repeats + 1 if ends_stale else 0,
        num_first_gens=method.clock.num_gens // 2 if _has_two_stages(options) else 0,
    )
    island_config = cluster.IslandConfig(
        num_islands=method.clock.num_islands * len(problem_set.problems),
        num_selected_clusters=options.num_parent,
        initial_fn=base,
        mutation_engine=_make_proposer(problem_set, method, options, base, model),
        gate=chosen.make_gate(),
        fitness=make_island_fitness(options, method.clock.num_islands),
        make_population=population.make_populations(
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
    conclusion = RunConclusion(problem_set, status, options.method)
    report = {**_make_report(problem_set, method, options, model), **chosen.report}
    return system.BuiltSystem(
        config,
        report,
        [*problem_set.files, *chosen.files],
        problem_set.sandbox,
        conclusion.close,
        conclusion,
        summarize_candidate=plan_evaluator.summarize_candidate,
    )


def make_island_fitness(options: Options, num_islands: int) -> fitness.IslandFitness:
    """Returns the fitness of each island: the common weights for one island, the strategies for several."""
    common_weights = fitness.parse_weights(options.weights)
    if num_islands == 1 or not options.strategies:
        return fitness.IslandFitness([common_weights], num_islands)
    return fitness.IslandFitness([fitness.STRATEGIES[name] for name in options.strategies], num_islands)


def _make_proposer(
    problem_set: problems.ProblemSet,
    method: SearchMethod,
    options: Options,
    base: function.Function,
    model: llm.LLM | None,
) -> function.Proposer:
    if model is None:
        num_turns = method.conversation_config.num_turns
        return trace_mutator.TraceMutator(problem_set.problems, base, method.clock, num_turns, method.is_memoryless)
    selects_elites = _selects_elites_by_llm(options, model)
    return conversations.ConversationMutator(
        model,
        problem_set.problems,
        base,
        method.schedule,
        method.conversation_config,
        method.prompt_builder,
        selects_elites=selects_elites,
    )


def _selects_elites_by_llm(options: Options, model: llm.LLM | None) -> bool:
    return model is not None and options.elect == "model" and options.method == "mind"


def _check_llm_options(options: Options, model: llm.LLM | None) -> None:
    if options.second_gen and not options.second_llm:
        raise errors.SetupError("mind.second_gen needs mind.second_llm. Set it to one of the models of --llm.")
    if model is None and (options.second_llm or options.critic_llm):
        raise errors.SetupError("mind.second_llm and mind.critic_llm name models of --llm. Pass several with commas.")


def _make_report(
    problem_set: problems.ProblemSet, method: SearchMethod, options: Options, model: llm.LLM | None
) -> Mapping[str, JSON]:
    clock, parent_sampling = method.clock, method.parent_sampling
    max_plans = clock.num_islands * clock.num_convs * clock.num_gens * method.conversation_config.num_turns
    conversations_text = f"{clock.num_convs} conversations of {method.conversation_config.num_turns} turns per island"
    strategies: Sequence[str] = options.strategies if clock.num_islands > 1 else ()
    return {
        "problems": problem_set.source,
        "method": options.method,
        "engine": "recombination and mutation of traces, no LLM" if model is None else f"LLM, {options.pattern}",
        "islands": f"{clock.num_islands} per problem{': ' + ', '.join(strategies) if strategies else ''}",
        "search": f"{clock.num_gens} generations of {conversations_text}, at most {max_plans:,} plans per problem",
        "parents": f"0 to {parent_sampling.num_parents}, none with probability {parent_sampling.pr_no_parents:.2f}",
        "weights": list(options.weights),
        **problem_set.report,
    }
