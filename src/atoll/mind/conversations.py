"""Refinement through critical conversation: a critic points out, an author answers, the judge has the last word."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from atoll import evaluation, function, llm
from atoll.candidate import JSON, Candidate
from atoll.mind import plan_evaluator, population, prompts
from atoll.mind.generations import GenerationSchedule, IterationPosition
from atoll.mind.problem_status import is_problem_done
from atoll.mind.prompts import PlanPromptBuilder, PromptPlan
from atoll.mind.tasks.problem import Problem

type Pattern = Literal["one_reply", "self", "critic"]

_MAX_CRITIQUE_CHARS = 2000  # characters of a critique that are kept beside a candidate


class ConversationTurn(NamedTuple):
    """One turn of a conversation that was judged."""

    fn: function.Function
    plan: str
    result: evaluation.Evaluation

    def to_prompt_plan(self) -> PromptPlan:
        score = self.result.metrics.get(plan_evaluator.SCORE, self.result.score or 0.0)
        return PromptPlan(self.plan, score, self.result.feedback)


@contextmanager
def use_llm(name: str | None) -> Iterator[None]:
    """Has one model of several answer; None: whoever would answer anyway."""
    if name is None:
        yield
        return
    token = llm.EnsembleLLM.selected.set(name)
    try:
        yield
    finally:
        llm.EnsembleLLM.selected.reset(token)


@dataclass(frozen=True, slots=True)
class ConversationConfig:
    """How a conversation goes.

    Attributes:
        pattern: `one_reply`: critic and author in one reply, as the paper; `self`: the same model is critic and author
            in turn and hears all that was said; `critic`: a critic of its own sees the plan and the judge's words only.
        num_turns: Plans that a conversation makes.
        num_retries: Further attempts where a reply holds no plan that can be read.
        history: Earlier turns of its own that an author is shown beside the last one.
        critic_llm: The critic's model, by its name among several.
        second_llm: The model of the second stage, by its name among several.
        second_gen: The first generation of the second stage, from 1 on; 0: there is none.
        is_fresh: Every turn begins anew and knows of no other.
    """

    pattern: Pattern = "one_reply"
    num_turns: int = 4
    num_retries: int = 5
    num_earlier_turns: int = 0
    critic_llm: str | None = None
    second_llm: str | None = None
    second_gen: int = 0
    is_memoryless: bool = False

    def choose_llm(self, generation: int) -> str | None:
        """Returns whom a generation asks."""
        return self.second_llm if self.second_gen and generation + 1 >= self.second_gen else None


@dataclass(frozen=True, slots=True)
class ConversationMutator:
    """The engine that asks a model: every step is one conversation on the parents of an island.

    Attributes:
        problems: In the order of the schedule.
        base: What every candidate is a clone of.
        asks_elite: Whether, before a reset, the model is asked which elites are good and unlike each other.
    """

    model: llm.LLM
    problems: Sequence[Problem]
    base: function.Function
    schedule: GenerationSchedule
    config: ConversationConfig = field(default_factory=ConversationConfig)
    prompt_builder: PlanPromptBuilder = field(default_factory=PlanPromptBuilder)
    selects_elites: bool = False

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        position = self.schedule.clock.get_position(context.iteration)
        if context.iteration > self.schedule.clock.num_iterations or is_problem_done(context.advice, position.problem):
            return []
        problem = self.problems[position.problem]
        with use_llm(self.config.choose_llm(position.generation)):
            selected_ids = self._select_elites(context, position, problem)
            turns = list(self._converse(context, position, problem, selected_ids))
        return [turn.fn for turn in turns]

    def _converse(
        self,
        context: function.ProposalContext,
        position: IterationPosition,
        problem: Problem,
        selected_ids: Sequence[JSON],
    ) -> Iterator[ConversationTurn]:
        turns, dialogue = list[ConversationTurn](), list[str]()
        parent_plans = [make_prompt_plan(fn) for fn in context.parents]
        for turn_index in range(self.config.num_turns):
            last_plans = (
                [] if self.config.is_memoryless else [earlier_turn.to_prompt_plan() for earlier_turn in turns[-1:]]
            )
            earlier_plans = [
                earlier_turn.to_prompt_plan() for earlier_turn in turns[-1 - self.config.num_earlier_turns : -1]
            ]
            plan, critique = self._request_plan(problem, last_plans or parent_plans, dialogue, earlier_plans)
            if plan is None and self.config.is_memoryless:
                continue  # the next one knows nothing of it anyway
            if plan is None:
                return
            meta: dict[str, JSON] = {
                "generation": position.generation,
                "conversation": position.conversation,
                "turn": turn_index,
            }
            meta |= {"critic": critique[:_MAX_CRITIQUE_CHARS]} if critique else {}
            meta |= {"chosen": list(selected_ids)} if selected_ids and not turn_index else {}
            content = function.Text(plan_evaluator.make_content(problem, plan))
            parent_ids = (
                (f"{context.iteration}.{turn_index - 1}",)
                if turn_index
                else tuple(population.get_id(fn) for fn in context.parents)
            )
            visible_ids = () if self.config.is_memoryless else parent_ids
            fn = self.base.clone(content).with_evaluation(Candidate("", content, visible_ids, meta=meta))
            (result,) = context.evaluate([fn])
            new_turn = ConversationTurn(fn, plan, result)
            turns.append(new_turn)
            yield new_turn
            if plan_evaluator.is_solved(result) or result.failure is not None:
                return

    def _request_plan(
        self, problem: Problem, plans: Sequence[PromptPlan], dialogue: list[str], earlier_plans: Sequence[PromptPlan]
    ) -> tuple[str | None, str]:
        """Returns a plan that can be read, and what the critic said before it; asks again where it cannot."""
        critique = self._request_critique(problem, plans, dialogue) if plans else ""
        if not plans:
            prompt = self.prompt_builder.build_initial(problem)
        elif critique:
            visible_dialogue = dialogue if self.config.pattern == "self" else [f"Critic:\n{critique}"]
            prompt = self.prompt_builder.build_revision(problem, plans, visible_dialogue)
        else:
            prompt = self.prompt_builder.build_improvement(problem, plans, earlier=earlier_plans)
        for attempt in range(self.config.num_retries + 1):
            text = self.model(f"{prompt}{prompts.RETRY_REQUEST.format(number=attempt)}\n" if attempt else prompt).text
            plan = problem.parse_plan(prompts.extract_plan(text))
            if plan is not None:
                if self.config.pattern == "self":
                    dialogue.append(f"Author:\n{plan}")
                return plan, critique or prompts.extract_critique(text)
        return None, critique

    def _request_critique(self, problem: Problem, plans: Sequence[PromptPlan], dialogue: list[str]) -> str:
        if self.config.pattern == "one_reply" or not self.prompt_builder.has_critic:
            return ""
        is_self = self.config.pattern == "self"
        with use_llm(self.config.critic_llm):
            critique = self.model(
                self.prompt_builder.build_critique(problem, plans, dialogue if is_self else ())
            ).text.strip()
        if is_self:
            dialogue.append(f"Critic:\n{critique}")
        return critique

    def _select_elites(
        self, context: function.ProposalContext, position: IterationPosition, problem: Problem
    ) -> Sequence[JSON]:
        """Returns the ids of those whom the model chooses as founders, where a reset is due with this step."""
        clock, reset_every = self.schedule.clock, self.schedule.reset_every
        elites, count = context.inspirations.get("elites", ()), self.schedule.num_top
        is_due = (
            self.selects_elites
            and reset_every
            and clock.is_generation_end(position)
            and (position.generation + 1) % reset_every == 0
        )
        if not is_due or len(elites) <= count:
            return []
        response = self.model(
            self.prompt_builder.build_elite_selection(problem, [make_prompt_plan(fn) for fn in elites], count)
        ).text
        return [
            population.get_id(elites[number - 1]) for number in prompts.extract_numbers(response, len(elites))[:count]
        ]


def make_prompt_plan(fn: function.Function) -> PromptPlan:
    """Returns a function as a prompt shows it."""
    result = fn.evaluation or evaluation.failed("not judged")
    score = result.metrics.get(plan_evaluator.SCORE, result.score or 0.0)
    return PromptPlan(plan_evaluator.get_plan(str(fn.skeleton())), score, result.feedback)
