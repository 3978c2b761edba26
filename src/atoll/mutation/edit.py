"""The engine that lets a language model change a program: by diff, as a whole, or out of two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Protocol, get_args

from atoll import errors, function
from atoll.candidate import JSON
from atoll.mutation.changes import change
from atoll.mutation.diffs import Reads, blocks_of, edited
from atoll.mutation.fences import fenced_code
from atoll.mutation.markers import spliced
from atoll.mutation.rewrite import Answer, Model
from atoll.mutation.skeletons import skeleton_of

type Mode = Literal["diff", "rewrite", "cross"]

MODES: Sequence[str] = get_args(Mode.__value__)
_MOST_PROBLEMS, _LONGEST_PROBLEM = 4, 200  # of a diff, as kept with the child


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked for.

    Attributes:
        parent: The program to change.
        mode: How it should answer.
        partner: The second program of a crossover.
        fault: Why its last answer could not be used, where it may try again.
        answer: That answer.
    """

    parent: function.Function
    mode: Mode
    partner: function.Function | None = None
    fault: str = ""
    answer: str = ""


class Prompt(NamedTuple):
    """A prompt, and what was left out of it for want of room."""

    text: str
    cut: Sequence[str] = ()


class Ask(Protocol):
    """Makes the prompt of a request; a function of both, as the engine is one of its task."""

    def __call__(self, task: function.Task, request: Request, /) -> Prompt: ...


class _Draft(NamedTuple):
    """A new text, and what of the answer could not be applied."""

    text: str
    mode: Mode
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    """Asks a model for changes and makes children of its answers; outside of EVOLVE-BLOCKs nothing changes.

    An answer may be SEARCH/REPLACE blocks or a whole program in a fence, whatever was asked for; one that is neither
    is a failed proposal and never a program. The settings of a run and its learner may say `mode` for a step.

    Attributes:
        llm: Who is asked.
        ask: Makes the prompts.
        language: Of the fence that a whole program stands in.
        mode: How the model should answer.
        crossover: The chance that it is asked to combine two programs instead.
        num_proposals: Answers of a step, each for a child of its own; the parents take turns, the best first.
        can_repair: Whether an answer that cannot be used, or only in part, may be mended once with its fault shown.
        reads: Finds the blocks of an answer.
        max_length: Characters of the longest program that counts.
    """

    llm: Model
    ask: Ask
    language: str = "python"
    mode: Mode = "diff"
    crossover: float = 0.0
    num_proposals: int = 1
    can_repair: bool = True
    reads: Reads = blocks_of
    max_length: int = 100_000

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns a child of each answer that could be used.

        Raises:
            ValueError: None could; the first fault says why.
        """
        wanted = self.num_proposals if task.allowance is None else max(1, min(self.num_proposals, task.allowance))
        children, faults = list[function.Function](), list[BaseException]()
        for request in self._requests(task, wanted):
            child = errors.attempt(partial(self._child, task, request), (errors.JournalFailed, errors.SetupError))
            if not isinstance(child, errors.Caught):
                children.append(child)
                continue
            faults.append(child.error)
            if not isinstance(child.error, ValueError):
                break  # the model is silent: what it said before that counts, and who asks again asks the same
        if not children:
            raise faults[0]
        return children

    def _requests(self, task: function.Task, wanted: int) -> Iterator[Request]:
        advised = task.advice.get("mode")
        mode: Mode = advised if advised in MODES else self.mode  # type: ignore[assignment]  # one of them, then
        for number in range(wanted):
            parent = task.parents[-1 - number % len(task.parents)]
            is_cross = mode == "cross" or (advised not in MODES and task.rng.random() < self.crossover)
            partner = _partner(task, parent) if is_cross else None
            plain: Mode = "rewrite" if mode == "cross" else mode
            yield Request(parent, "cross" if partner else plain, partner)

    def _child(self, task: function.Task, request: Request) -> function.Function:
        prompt = self.ask(task, request)
        reply = self.llm(prompt.text)
        draft = self._read(request, reply)
        fault = str(draft) if isinstance(draft, ValueError) else "\n".join(draft.problems)
        if fault and self.can_repair:
            second = self.ask(task, replace(request, fault=fault, answer=reply.text))
            mended = self.llm(second.text)
            again = self._read(request, mended)
            if isinstance(again, _Draft):
                return _born(request, again, mended, second, is_repaired=True)
        if isinstance(draft, ValueError):
            raise draft
        return _born(request, draft, reply, prompt)

    def _read(self, request: Request, reply: Answer) -> "_Draft | ValueError":
        """Returns what an answer makes of the parent, or why it makes nothing."""
        base = str(request.parent.skeleton())
        try:
            draft = self._draft(request, base, reply)
        except ValueError as error:
            return error
        if draft.text.split() == base.split():
            return ValueError(f"{reply.model} replied with the program that it was shown.")
        if len(draft.text) > self.max_length:
            return ValueError(f"{reply.model} wrote {len(draft.text)} characters; at most {self.max_length} count.")
        return draft

    def _draft(self, request: Request, base: str, reply: Answer) -> _Draft:
        blocks = self.reads(reply.text)
        if blocks:
            found = edited(base, blocks)
            if not found.num_applied:
                raise ValueError(f"no block of {reply.model} could be applied: {'; '.join(found.problems)}.")
            return _Draft(found.text, "diff", found.problems)
        text = fenced_code(reply.text, self.language)
        if text is None:
            raise ValueError(f"{reply.model} replied without a program: {reply.text[:80]!r}. Ask for one fenced block.")
        return _Draft(spliced(base, text), "cross" if request.mode == "cross" else "rewrite")


def _partner(task: function.Task, parent: function.Function) -> function.Function | None:
    """Draws another program that ran, of those that the step shows."""
    shown = [*task.parents, *(fn for role, fns in task.others.items() if role != "failed" for fn in fns)]
    ran = {str(fn.skeleton()): fn for fn in shown if fn.evaluation is not None and fn.score() is not None}
    ran.pop(str(parent.skeleton()), None)
    return task.rng.choice(list(ran.values())) if ran else None


def _born(
    request: Request, draft: _Draft, reply: Answer, prompt: Prompt, *, is_repaired: bool = False
) -> function.Function:
    parent, base = request.parent, str(request.parent.skeleton())
    parents = [parent, request.partner] if request.partner else [parent]
    notes: dict[str, JSON] = {"engine": draft.mode, "model": reply.model, "change": change(base, draft.text)}
    notes |= {"from_score": parent.score()} if parent.evaluation is not None else {}
    notes |= {"is_repaired": True} if is_repaired else {}
    notes |= {"cut": list(prompt.cut)} if prompt.cut else {}
    problems = [problem[:_LONGEST_PROBLEM] for problem in draft.problems[:_MOST_PROBLEMS]]
    notes |= {"problems": problems} if problems else {}
    return function.draft(parent, skeleton_of(parent, draft.text), parents=parents, **notes)
