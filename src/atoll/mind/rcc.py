"""Refinement through critical conversation: a critic points out, an author answers, the judge has the last word."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from atoll import evaluation, function, llm
from atoll.candidate import JSON, Candidate
from atoll.mind import judge, pool, prompts
from atoll.mind.prompts import Prompter, Shown
from atoll.mind.rounds import Exchange, Turn
from atoll.mind.standing import is_over
from atoll.mind.tasks.problem import Problem

type Pattern = Literal["one_reply", "self", "critic"]

_LONGEST = 2000  # characters of a critique that are kept beside a candidate


class Draft(NamedTuple):
    """One turn of a conversation that was judged."""

    fn: function.Function
    plan: str
    found: evaluation.Evaluation

    def shown(self) -> Shown:
        score = self.found.metrics.get(judge.SCORE, self.found.score or 0.0)
        return Shown(self.plan, score, self.found.feedback)


@contextmanager
def asking(name: str | None) -> Iterator[None]:
    """Has one model of several answer; None: whoever would answer anyway."""
    if name is None:
        yield
        return
    token = llm.Ensemble.chosen.set(name)
    try:
        yield
    finally:
        llm.Ensemble.chosen.reset(token)


@dataclass(frozen=True, slots=True)
class Manner:
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
    history: int = 0
    critic_llm: str | None = None
    second_llm: str | None = None
    second_gen: int = 0
    is_fresh: bool = False

    def model(self, generation: int) -> str | None:
        """Returns whom a generation asks."""
        return self.second_llm if self.second_gen and generation + 1 >= self.second_gen else None


@dataclass(frozen=True, slots=True)
class Conversations:
    """The engine that asks a model: every step is one conversation on the parents of an island.

    Attributes:
        problems: In the order of the schedule.
        base: What every candidate is a clone of.
        asks_elite: Whether, before a reset, the model is asked which elites are good and unlike each other.
    """

    model: llm.LLM
    problems: Sequence[Problem]
    base: function.Function
    schedule: Exchange
    manner: Manner = field(default_factory=Manner)
    prompter: Prompter = field(default_factory=Prompter)
    asks_elite: bool = False

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        turn = self.schedule.rounds.turn(task.step)
        if task.step > self.schedule.rounds.num_steps or is_over(task.advice, turn.problem):
            return []
        problem = self.problems[turn.problem]
        with asking(self.manner.model(turn.generation)):
            chosen = self._elect(task, turn, problem)
            drafts = list(self._converse(task, turn, problem, chosen))
        return [each.fn for each in drafts]

    def _converse(self, task: function.Task, turn: Turn, problem: Problem, chosen: Sequence[JSON]) -> Iterator[Draft]:
        drafts, said = list[Draft](), list[str]()
        parents = [shown(fn) for fn in task.parents]
        for number in range(self.manner.num_turns):
            last = [] if self.manner.is_fresh else [each.shown() for each in drafts[-1:]]
            earlier = [each.shown() for each in drafts[-1 - self.manner.history : -1]]
            plan, critique = self._reply(problem, last or parents, said, earlier)
            if plan is None and self.manner.is_fresh:
                continue  # the next one knows nothing of it anyway
            if plan is None:
                return
            meta: dict[str, JSON] = {"generation": turn.generation, "conversation": turn.conversation, "turn": number}
            meta |= {"critic": critique[:_LONGEST]} if critique else {}
            meta |= {"chosen": list(chosen)} if chosen and not number else {}
            content = function.Text(judge.content_of(problem, plan))
            before = (f"{task.step}.{number - 1}",) if number else tuple(pool.id_of(fn) for fn in task.parents)
            ids = () if self.manner.is_fresh else before
            fn = self.base.clone(content).settle(Candidate("", content, ids, meta=meta))
            (found,) = task.judge([fn])
            draft = Draft(fn, plan, found)
            drafts.append(draft)
            yield draft
            if judge.is_solved(found) or found.failure is not None:
                return

    def _reply(
        self, problem: Problem, plans: Sequence[Shown], said: list[str], earlier: Sequence[Shown]
    ) -> tuple[str | None, str]:
        """Returns a plan that can be read, and what the critic said before it; asks again where it cannot."""
        critique = self._criticise(problem, plans, said) if plans else ""
        if not plans:
            prompt = self.prompter.begin(problem)
        elif critique:
            heard = said if self.manner.pattern == "self" else [f"Critic:\n{critique}"]
            prompt = self.prompter.answer(problem, plans, heard)
        else:
            prompt = self.prompter.improve(problem, plans, earlier=earlier)
        for attempt in range(self.manner.num_retries + 1):
            text = self.model(f"{prompt}{prompts.AGAIN.format(number=attempt)}\n" if attempt else prompt).text
            plan = problem.parse(prompts.plan_in(text))
            if plan is not None:
                if self.manner.pattern == "self":
                    said.append(f"Author:\n{plan}")
                return plan, critique or prompts.critique_in(text)
        return None, critique

    def _criticise(self, problem: Problem, plans: Sequence[Shown], said: list[str]) -> str:
        if self.manner.pattern == "one_reply" or not self.prompter.has_critic:
            return ""
        is_self = self.manner.pattern == "self"
        with asking(self.manner.critic_llm):
            critique = self.model(self.prompter.criticise(problem, plans, said if is_self else ())).text.strip()
        if is_self:
            said.append(f"Critic:\n{critique}")
        return critique

    def _elect(self, task: function.Task, turn: Turn, problem: Problem) -> Sequence[JSON]:
        """Returns the ids of those whom the model chooses as founders, where a reset is due with this step."""
        rounds, every = self.schedule.rounds, self.schedule.reset_every
        elites, number = task.others.get("elites", ()), self.schedule.num_top
        is_due = self.asks_elite and every and rounds.ends_generation(turn) and (turn.generation + 1) % every == 0
        if not is_due or len(elites) <= number:
            return []
        reply = self.model(self.prompter.elect(problem, [shown(fn) for fn in elites], number)).text
        return [pool.id_of(elites[each - 1]) for each in prompts.numbers_in(reply, len(elites))[:number]]


def shown(fn: function.Function) -> Shown:
    """Returns a function as a prompt shows it."""
    found = fn.evaluation or evaluation.failed("not judged")
    score = found.metrics.get(judge.SCORE, found.score or 0.0)
    return Shown(judge.plan_of(str(fn.skeleton())), score, found.feedback)
