"""Refinement through critical conversation. A critic comments, an author revises, the evaluator scores."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from atoll import evaluation, function, llm
from atoll.candidate import JSON, Candidate
from atoll.mind import actions, generations, plan_evaluator, population, prompts
from atoll.mind.actions import Note, Role
from atoll.mind.generations import OPTIMAL, GenerationSchedule, IterationPosition, is_problem_done
from atoll.mind.prompts import CountingLLM, PlanPromptBuilder, PromptPlan, RememberedTurn
from atoll.mind.tasks.problem import Problem, ToolProblem

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
    notes: Sequence[Note] = ()
    is_optimal: bool = False

    def to_prompt_plan(self) -> PromptPlan:
        score = self.result.metrics.get(plan_evaluator.SCORE, self.result.score or 0.0)
        return PromptPlan(self.plan, score, self.result.feedback)


def list_shown_plans(parents: Sequence[PromptPlan], turns: Sequence[ConversationTurn]) -> Sequence[PromptPlan]:
    """Returns the plan of the last turn, and behind it that of the best turn if it is better. At first the parents."""
    plans = [turn.to_prompt_plan() for turn in reversed(turns)]
    if not plans:
        return parents
    best = max(plans, key=lambda plan: (plan.score is not None, plan.score))
    return plans[:1] if best is plans[0] else [plans[0], best]


class AuthorReply(NamedTuple):
    """Plan of an author, with the critique before it, the claim that it is optimal, and the results of its tools."""

    plan: str | None
    critique: str = ""
    claim: str = ""
    tool_results: Sequence[actions.Result] = ()


class TurnRequest(NamedTuple):
    """State of a conversation before a turn.

    Attributes:
        problem: The problem.
        position: Position of the iteration.
        turn_index: Number of the turn, from 0.
        parent_ids: Ids of the candidates that the turn continues.
        shown_plans: Plans that the author saw.
        notes: Memory so far.
        meta: Further metadata of the candidate.
    """

    problem: Problem
    position: IterationPosition
    turn_index: int
    parent_ids: Sequence[str]
    shown_plans: Sequence[PromptPlan]
    notes: Sequence[Note]
    meta: Mapping[str, JSON]


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
        num_tools: Responses with tools per plan; 0 disables tools.
        num_forks: Points of the critic that become worldlines of their own, per turn.
        roles: Sub-agents that take part.
        role_calls: Calls of each role per island.
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
    num_tools: int = 0
    num_forks: int = 0
    roles: Sequence[Role] = ()
    role_calls: int = 4

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
        is_second_stage = generations.is_second_stage(context.advice, position.problem)
        with use_llm(self.config.choose_llm(position.generation, is_second_stage=is_second_stage)):
            selected_ids = self._select_elites(context, position, problem)
            turns = list[ConversationTurn]()
            try:
                turns.extend(self._converse(context, position, problem, selected_ids))
            except llm.BudgetExhausted:
                if not turns:  # otherwise the plans so far are kept
                    raise
        return [turn.fn for turn in turns]

    def _converse(
        self,
        context: function.ProposalContext,
        position: IterationPosition,
        problem: Problem,
        selected_ids: Sequence[JSON],
    ) -> Iterator[ConversationTurn]:
        turns, dialogue, num_repeats, num_children = list[ConversationTurn](), list[str](), 0, 0
        parent_plans = [make_prompt_plan(fn) for fn in context.parents]
        known_plans = {parent.plan for parent in parent_plans}
        line_ids = tuple(population.get_id(fn) for fn in context.parents)
        notes = self._start_memory(context, position, problem, parent_plans)
        for turn_index in range(self.config.num_turns):
            counter = CountingLLM(self.model)
            attempt, note_texts = f"{context.iteration}.{turn_index}", tuple(actions.format_notes(notes))
            builder = replace(self.prompt_builder, attempt=attempt, notes=note_texts)
            writer = replace(self, model=counter, prompt_builder=builder)
            visible_turns = [] if self.config.is_memoryless else turns
            shown_plans = list_shown_plans(parent_plans, visible_turns)
            reply = writer._request_plan(problem, shown_plans, visible_turns, dialogue)
            if reply.plan is None and (self.config.is_memoryless or not self.config.num_retries):
                continue  # the next turn is independent, or a retry itself
            if reply.plan is None:
                return
            num_repeats += reply.plan in known_plans
            known_plans.add(reply.plan)
            meta: dict[str, JSON] = {"chosen": list(selected_ids)} if selected_ids and not turn_index else {}
            request = TurnRequest(problem, position, turn_index, line_ids, shown_plans, notes, meta)
            turn = writer._evaluate_reply(context, request, reply, counter)
            notes, forks = list(turn.notes), writer._fork(context, request, turn)
            turns.append(turn)
            yield from (turn, *forks)
            line_ids, num_children = (f"{context.iteration}.{num_children}",), num_children + 1 + len(forks)
            is_ended = any(plan_evaluator.is_solved(child.result) for child in (turn, *forks))
            if is_ended or turn.result.failure is not None or turn.is_optimal:
                return
            if self.config.num_repeats and num_repeats >= self.config.num_repeats:
                return

    def _start_memory(
        self,
        context: function.ProposalContext,
        position: IterationPosition,
        problem: Problem,
        parent_plans: Sequence[PromptPlan],
    ) -> list[Note]:
        """Returns the notes of the parents, and new ones of researcher, planner and critic."""
        notes = actions.collect_notes(fn.candidate.meta for fn in context.parents if fn.candidate)
        roles: Sequence[Role] = ("researcher", "planner", *(("critic",) if parent_plans else ()))
        for role in roles:
            if self._is_due(role, position):
                builder = replace(self.prompt_builder, notes=tuple(actions.format_notes(notes)))
                with use_llm(self.config.critic_llm if role == "critic" else None):
                    text = self.model(builder.build_role(problem, role, parent_plans if role == "critic" else ())).text
                notes.append(actions.make_note(context.iteration, role, text))
        return notes

    def _is_due(self, role: Role, position: IterationPosition) -> bool:
        number = position.generation * self.schedule.clock.num_convs + position.conversation
        return actions.is_due(role, self.config.roles, self.config.role_calls, number)

    def _evaluate_reply(
        self, context: function.ProposalContext, request: "TurnRequest", reply: "AuthorReply", counter: CountingLLM
    ) -> ConversationTurn:
        """Reviews and evaluates a plan. Its metadata has the notes, tools and usage of the turn."""
        assert reply.plan is not None
        problem, notes, review_score = request.problem, list(request.notes), 0.0
        is_last = request.turn_index == self.config.num_turns - 1
        if is_last and self._is_due("verifier", request.position):
            with use_llm(self.config.critic_llm):
                plain_plans = [PromptPlan(reply.plan, None, "")]  # without score and feedback: an independent review
                text = self.model(self.prompt_builder.build_role(problem, "verifier", plain_plans)).text
            review_score = actions.parse_verdict(text)
            notes.append(actions.make_note(context.iteration, "verifier", text))
        meta: dict[str, JSON] = {
            "generation": request.position.generation,
            "conversation": request.position.conversation,
            "turn": request.turn_index,
            **request.meta,
        }
        meta |= {"critic": reply.critique[:_MAX_CRITIQUE_CHARS]} if reply.critique else {}
        meta |= {"memory": [note.to_data() for note in notes]} if notes else {}
        tool_results = [result.to_data() for result in prompts.shorten_results(reply.tool_results)]
        meta |= {"tools": tool_results} if tool_results else {}
        meta["usage"] = counter.to_data()
        content = plan_evaluator.PlanText(
            plan_evaluator.make_content(problem, reply.plan),
            parent_plan=request.shown_plans[-1].plan if request.shown_plans else None,
            tokens=counter.tokens,
            review_score=review_score,
        )
        parent_ids = () if self.config.is_memoryless else tuple(request.parent_ids)
        fn = self.base.clone(content)
        (result,) = context.evaluate([fn.with_evaluation(Candidate("", content, parent_ids, meta=meta))])
        claimed_plan = PromptPlan(reply.plan, result.metrics.get(plan_evaluator.SCORE, 0.0), result.feedback)
        agreed_by = self._check_claim(problem, claimed_plan, reply.claim) if reply.claim else ""
        meta |= {OPTIMAL: agreed_by} if agreed_by else {}
        fn = fn.with_evaluation(Candidate("", content, parent_ids, meta=meta), result)
        return ConversationTurn(fn, reply.plan, result, reply.critique, notes, bool(agreed_by))

    def _fork(
        self, context: function.ProposalContext, request: "TurnRequest", turn: ConversationTurn
    ) -> list[ConversationTurn]:
        """Makes a worldline for each of the critic's first points. Its task is that point, on the criticized plan."""
        points = actions.list_points(turn.critique)[: self.config.num_forks]
        if not request.shown_plans or plan_evaluator.is_solved(turn.result):
            return []
        forks = list[ConversationTurn]()
        for point in points:
            counter = CountingLLM(self.model)
            writer = replace(self, model=counter)
            prompt = self.prompt_builder.build_fork(request.problem, request.shown_plans[-1], point)
            _, plan, results = writer._request_readable_plan(request.problem, prompt)
            if plan is not None:
                reply = AuthorReply(plan, "", "", results)
                fork_request = request._replace(meta={"fork": point})
                forks.append(writer._evaluate_reply(context, fork_request, reply, counter))
        return forks

    def _request_plan(
        self, problem: Problem, plans: Sequence[PromptPlan], turns: Sequence[ConversationTurn], dialogue: list[str]
    ) -> "AuthorReply":
        """Returns a readable plan and the critique before it. Repeats the request if no plan can be read."""
        remembered = [RememberedTurn(turn.to_prompt_plan(), turn.critique) for turn in turns]
        has_feedback = self.prompt_builder.has_feedback
        memory = prompts.format_memory(remembered[:-1], self.config.memory_tokens, has_feedback=has_feedback)
        points = prompts.find_open_points(remembered)
        critique = self._request_critique(problem, plans, dialogue) if plans else ""
        if not plans:
            prompt = self.prompt_builder.build_initial(problem)
        elif critique:
            visible_dialogue = dialogue if self.config.pattern == "self" else [f"Critic:\n{critique}"]
            visible_memory = () if self.config.pattern == "self" else memory
            prompt = self.prompt_builder.build_revision(problem, plans, visible_dialogue, visible_memory, points)
        else:
            prompt = self.prompt_builder.build_improvement(problem, plans, memory=memory, points=points)
        text, plan, results = self._request_readable_plan(problem, prompt)
        if plan is None:
            return AuthorReply(None, critique)
        if self.config.pattern == "self":
            dialogue.append(f"Author:\n{plan}")
        critique = critique or prompts.extract_critique(text)
        return AuthorReply(plan, critique, prompts.extract_claim(text), results)

    def _request_readable_plan(self, problem: Problem, prompt: str) -> tuple[str, str | None, Sequence[actions.Result]]:
        """Returns the last response, its plan and the results of tools.

        An author may first use tools. A response without a readable plan is requested again.
        """
        session = problem.open_tools() if self.config.num_tools and isinstance(problem, ToolProblem) else None
        num_left, num_retries = self.config.num_tools if session else 0, self.config.num_retries
        exchanges = list[tuple[str, str]]()
        while True:
            try:
                with session.work_in_folder() if session else nullcontext():
                    text = self.model(prompts.continue_dialogue(prompt, exchanges)).text
            except llm.BudgetExhausted:
                plan = session.read_plan("") if session else None
                if session is None or plan is None:
                    raise
                return "", plan, tuple(session.results)  # the edits so far
            output = session.use_tools(text, num_left - 1) if session and num_left else None
            if output is not None:
                num_left -= 1
                exchanges.append((text, output))
                continue
            plan, reason = prompts.read_plan(problem, text)
            plan = session.read_plan(text) if session else plan
            shown_text = text[:_MAX_RESPONSE_CHARS]
            if plan is not None or not num_retries or (exchanges and shown_text == exchanges[-1][0]):
                # If the response repeats the last one, the next prompt would be the same.
                return text, plan, tuple(session.results) if session else ()
            num_retries -= 1
            request = prompts.RETRY_REQUEST.format(reason=reason, plan_format=problem.plan_format)
            exchanges = [*(exchanges if session else ()), (shown_text, request)]

    def _check_claim(self, problem: Problem, plan: PromptPlan, claim: str) -> str:
        """Returns who agrees that a plan is optimal: the evaluator's bound or a second critic; empty if neither."""
        bound = problem.max_score
        if bound is not None:
            return "the evaluator's bound" if plan.score is not None and plan.score >= bound else ""
        with use_llm(self.config.critic_llm):
            response = self.model(self.prompt_builder.build_verification(problem, plan, claim)).text
        return "a second critic" if prompts.is_agreement(response) else ""

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
