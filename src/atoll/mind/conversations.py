"""Refinement through critical conversation. A critic comments, an author revises, the evaluator scores."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from atoll import evaluation, function, llm
from atoll.candidate import JSON, Candidate
from atoll.mind import conversation_memory, plan_evaluator, population, problem_status, prompts
from atoll.mind.conversation_memory import RememberedTurn
from atoll.mind.generations import GenerationSchedule, IterationPosition
from atoll.mind.problem_status import OPTIMAL, is_problem_done
from atoll.mind.prompts import PlanPromptBuilder, PromptPlan
from atoll.mind.tasks.problem import Problem

FIRST_LLM = ""  # selects no LLM of an ensemble by name, so the first one answers

type Pattern = Literal["one_reply", "self", "critic"]

_MAX_CRITIQUE_CHARS = 2000  # characters of a critique in a candidate's metadata
_MAX_RESPONSE_CHARS = 4000  # characters of an unreadable response in the next request


class ConversationTurn(NamedTuple):
    """One evaluated turn of a conversation."""

    fn: function.Function
    plan: str
    result: evaluation.Evaluation
    critique: str = ""

    def to_prompt_plan(self) -> PromptPlan:
        score = self.result.metrics.get(plan_evaluator.SCORE, self.result.score or 0.0)
        return PromptPlan(self.plan, score, self.result.feedback)


class AuthorReply(NamedTuple):
    """Plan of an author, with the critique before it and the claim that it is optimal."""

    plan: str | None
    critique: str = ""
    claim: str = ""


@contextmanager
def use_llm(name: str | None) -> Iterator[None]:
    """Selects one LLM of an ensemble; None keeps the default."""
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
    """Settings of a conversation.

    Attributes:
        pattern: `one_reply`: critic and author in one response, as in the paper. `self`: the same LLM is critic and
            author in turn and sees the whole dialogue. `critic`: a separate critic sees only the plan and its feedback.
        num_turns: Plans per conversation.
        num_retries: Further attempts after a response without a readable plan.
        memory_tokens: Budget of the earlier turns in a prompt, besides the last one. Older turns become one line
            each. None is unlimited.
        num_repeats: Repeated plans that end a conversation; 0 disables it.
        critic_llm: LLM of the critic, by name.
        second_llm: LLM of the second stage, by name. It solves what the first stage did not.
        second_gen: First generation of the second stage for all problems, counted from 1; 0: when the first stage of a
            problem has ended.
        is_memoryless: Whether each turn starts without parents and earlier turns.
    """

    pattern: Pattern = "one_reply"
    num_turns: int = 4
    num_retries: int = 5
    memory_tokens: int | None = 2000
    num_repeats: int = 0
    critic_llm: str | None = None
    second_llm: str | None = None
    second_gen: int = 0
    is_memoryless: bool = False

    def choose_llm(self, generation: int, *, is_second_stage: bool) -> str | None:
        """Returns the LLM for a generation. The first stage uses the first LLM, even if a router selected another."""
        if self.second_llm is None:
            return None
        is_late = bool(self.second_gen) and generation + 1 >= self.second_gen
        return self.second_llm if is_second_stage or is_late else FIRST_LLM


@dataclass(frozen=True, slots=True)
class ConversationMutator:
    """Proposes plans with an LLM. Each iteration is one conversation about the parents of an island.

    Attributes:
        problems: In the order of the schedule.
        base: Function that every candidate is cloned from.
        selects_elites: Whether the LLM selects good and diverse elites before a reset.
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
        is_second_stage = problem_status.is_second_stage(context.advice, position.problem)
        with use_llm(self.config.choose_llm(position.generation, is_second_stage=is_second_stage)):
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
        turns, dialogue, num_repeats = list[ConversationTurn](), list[str](), 0
        parent_plans = [make_prompt_plan(fn) for fn in context.parents]
        known_plans = {parent.plan for parent in parent_plans}
        for turn_index in range(self.config.num_turns):
            writer = replace(
                self, prompt_builder=replace(self.prompt_builder, attempt=f"{context.iteration}.{turn_index}")
            )
            visible_turns = [] if self.config.is_memoryless else turns
            reply = writer._request_plan(problem, parent_plans, visible_turns, dialogue)
            if reply.plan is None and self.config.is_memoryless:
                continue  # turns are independent
            if reply.plan is None:
                return
            num_repeats += reply.plan in known_plans
            known_plans.add(reply.plan)
            meta: dict[str, JSON] = {
                "generation": position.generation,
                "conversation": position.conversation,
                "turn": turn_index,
            }
            meta |= {"critic": reply.critique[:_MAX_CRITIQUE_CHARS]} if reply.critique else {}
            meta |= {"chosen": list(selected_ids)} if selected_ids and not turn_index else {}
            content = function.Text(plan_evaluator.make_content(problem, reply.plan))
            parent_ids = (
                (f"{context.iteration}.{turn_index - 1}",)
                if turn_index
                else tuple(population.get_id(fn) for fn in context.parents)
            )
            visible_ids = () if self.config.is_memoryless else parent_ids
            fn = self.base.clone(content)
            (result,) = context.evaluate([fn.with_evaluation(Candidate("", content, visible_ids, meta=meta))])
            claimed_plan = PromptPlan(reply.plan, result.metrics.get(plan_evaluator.SCORE, 0.0), result.feedback)
            agreed_by = writer._check_claim(problem, claimed_plan, reply.claim) if reply.claim else ""
            meta |= {OPTIMAL: agreed_by} if agreed_by else {}
            fn = fn.with_evaluation(Candidate("", content, visible_ids, meta=meta), result)
            new_turn = ConversationTurn(fn, reply.plan, result, reply.critique)
            turns.append(new_turn)
            yield new_turn
            if plan_evaluator.is_solved(result) or result.failure is not None or agreed_by:
                return
            if self.config.num_repeats and num_repeats >= self.config.num_repeats:
                return

    def _request_plan(
        self,
        problem: Problem,
        parent_plans: Sequence[PromptPlan],
        turns: Sequence[ConversationTurn],
        dialogue: list[str],
    ) -> "AuthorReply":
        """Returns a readable plan and the critique before it. Repeats the request if no plan can be read."""
        plans = [turn.to_prompt_plan() for turn in turns[-1:]] or parent_plans
        remembered = [RememberedTurn(turn.to_prompt_plan(), turn.critique) for turn in turns]
        has_feedback = self.prompt_builder.has_feedback
        memory = conversation_memory.format_memory(
            remembered[:-1], self.config.memory_tokens, has_feedback=has_feedback
        )
        points = conversation_memory.find_open_points(remembered)
        critique = self._request_critique(problem, plans, dialogue) if plans else ""
        if not plans:
            prompt = self.prompt_builder.build_initial(problem)
        elif critique:
            visible_dialogue = dialogue if self.config.pattern == "self" else [f"Critic:\n{critique}"]
            visible_memory = () if self.config.pattern == "self" else memory
            prompt = self.prompt_builder.build_revision(problem, plans, visible_dialogue, visible_memory, points)
        else:
            prompt = self.prompt_builder.build_improvement(problem, plans, memory=memory, points=points)
        text, reason = "", ""
        for attempt in range(self.config.num_retries + 1):
            request = prompts.RETRY_REQUEST.format(reason=reason, plan_format=problem.plan_format)
            previous_text, shown_text = text, text[:_MAX_RESPONSE_CHARS]
            text = self.model(llm.continue_prompt(prompt, shown_text, request) if attempt else prompt).text
            plan, reason = prompts.read_plan(problem, text)
            if plan is not None:
                if self.config.pattern == "self":
                    dialogue.append(f"Author:\n{plan}")
                critique = critique or prompts.extract_critique(text)
                return AuthorReply(plan, critique, conversation_memory.extract_claim(text))
            if text == previous_text:
                break  # the next prompt would be the same
        return AuthorReply(None, critique)

    def _check_claim(self, problem: Problem, plan: PromptPlan, claim: str) -> str:
        """Returns who agrees that a plan is optimal: the evaluator's bound or a second critic; empty if neither."""
        bound = problem.max_score
        if bound is not None:
            return "the evaluator's bound" if plan.score >= bound else ""
        with use_llm(self.config.critic_llm):
            response = self.model(self.prompt_builder.build_verification(problem, plan, claim)).text
        return "a second critic" if conversation_memory.is_agreement(response) else ""

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
        """Returns the ids of the elites that the LLM selects, if a reset follows this iteration."""
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
    result = fn.evaluation or evaluation.failed("not evaluated")
    score = result.metrics.get(plan_evaluator.SCORE, result.score or 0.0)
    return PromptPlan(plan_evaluator.get_plan(str(fn.skeleton())), score, result.feedback)
