"""The engine that lets a language model change a program: by diff, as a whole, or out of two."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Protocol, get_args

from atoll import errors, function
from atoll.candidate import JSON
from atoll.mutation.applicability import with_text
from atoll.mutation.diffs import DiffParser, apply_blocks, parse_blocks
from atoll.mutation.text_blocks import extract_code, splice, summarize_change


class TextResponse(Protocol):
    """What a model answered: `llm.Reply` is one."""

    @property
    def text(self) -> str: ...

    @property
    def model(self) -> str: ...


class LLMCallable(Protocol):
    """Whoever answers a prompt: every `llm.LLM` does. A durable one is asked once per step, also after a cut."""

    def __call__(self, prompt: str, /) -> TextResponse: ...


@dataclass(frozen=True, slots=True)
class RewriteMutator:
    """Asks a model once per step and takes the program out of its reply; outside of EVOLVE-BLOCKs nothing changes.

    Attributes:
        llm: Who is asked.
        ask: Makes the prompt of a task; `program_prompt` with a description is one.
        read: Finds the program in a reply; None if there is none.
    """

    llm: LLMCallable
    build_prompt: Callable[[function.ProposalContext], str]
    extract_program: Callable[[str], str | None] = extract_code

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child.

        Raises:
            ValueError: The reply has no program in it, has lost a marker, or is only the parent again.
        """
        parent = context.parents[-1]
        response = self.llm(self.build_prompt(context))
        text = self.extract_program(response.text)
        if text is None:
            raise ValueError(
                f"{response.model} replied without a program: {response.text[:80]!r}. Ask for one fenced block."
            )
        text = splice(str(parent.skeleton()), text)
        if text.split() == str(parent.skeleton()).split():
            raise ValueError(f"{response.model} replied with the program that it was shown.")
        return [function.derive_child(parent, with_text(parent, text), engine="rewrite", model=response.model)]


type Mode = Literal["diff", "rewrite", "cross"]

MODES: Sequence[str] = get_args(Mode.__value__)
_MAX_PROBLEMS, _MAX_PROBLEM_LENGTH = 4, 200  # of a diff, as kept with the child


@dataclass(frozen=True, slots=True)
class EditRequest:
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
    failure: str = ""
    response: str = ""


class Prompt(NamedTuple):
    """A prompt, and what was left out of it for want of room."""

    text: str
    omitted: Sequence[str] = ()


class PromptBuilder(Protocol):
    """Makes the prompt of a request; a function of both, as the engine is one of its task."""

    def __call__(self, context: function.ProposalContext, request: EditRequest, /) -> Prompt: ...


class _ParsedEdit(NamedTuple):
    """A new text, and what of the answer could not be applied."""

    text: str
    mode: Mode
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class EditMutator:
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

    llm: LLMCallable
    build_prompt: PromptBuilder
    language: str = "python"
    mode: Mode = "diff"
    crossover: float = 0.0
    num_proposals: int = 1
    can_repair: bool = True
    diff_parser: DiffParser = parse_blocks
    max_length: int = 100_000

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns a child of each answer that could be used.

        Raises:
            ValueError: None could; the first fault says why.
        """
        num_requests = (
            self.num_proposals
            if context.max_evaluations is None
            else max(1, min(self.num_proposals, context.max_evaluations))
        )
        children, failures = list[function.Function](), list[BaseException]()
        for request in self._iter_requests(context, num_requests):
            child = errors.capture(
                partial(self._make_child, context, request), (errors.JournalFailed, errors.SetupError)
            )
            if not isinstance(child, errors.CaughtException):
                children.append(child)
                continue
            failures.append(child.error)
            if not isinstance(child.error, ValueError):
                break  # the model is silent: what it said before that counts, and who asks again asks the same
        if not children:
            raise failures[0]
        return children

    def _iter_requests(self, context: function.ProposalContext, num_requests: int) -> Iterator[EditRequest]:
        advised_mode = context.advice.get("mode")
        mode: Mode = advised_mode if advised_mode in MODES else self.mode  # type: ignore[assignment]  # one of them, then
        for index in range(num_requests):
            parent = context.parents[-1 - index % len(context.parents)]
            is_cross = mode == "cross" or (advised_mode not in MODES and context.rng.random() < self.crossover)
            partner = _choose_partner(context, parent) if is_cross else None
            single_mode: Mode = "rewrite" if mode == "cross" else mode
            yield EditRequest(parent, "cross" if partner else single_mode, partner)

    def _make_child(self, context: function.ProposalContext, request: EditRequest) -> function.Function:
        prompt = self.build_prompt(context, request)
        response = self.llm(prompt.text)
        edit = self._try_parse(request, response)
        failure = str(edit) if isinstance(edit, ValueError) else "\n".join(edit.problems)
        if failure and self.can_repair:
            repair_prompt = self.build_prompt(context, replace(request, failure=failure, response=response.text))
            repair_response = self.llm(repair_prompt.text)
            repaired_edit = self._try_parse(request, repair_response)
            if isinstance(repaired_edit, _ParsedEdit):
                return _build_function(request, repaired_edit, repair_response, repair_prompt, is_repaired=True)
        if isinstance(edit, ValueError):
            raise edit
        return _build_function(request, edit, response, prompt)

    def _try_parse(self, request: EditRequest, response: TextResponse) -> "_ParsedEdit | ValueError":
        """Returns what an answer makes of the parent, or why it makes nothing."""
        base = str(request.parent.skeleton())
        try:
            edit = self._parse_edit(request, base, response)
        except ValueError as error:
            return error
        if edit.text.split() == base.split():
            return ValueError(f"{response.model} replied with the program that it was shown.")
        if len(edit.text) > self.max_length:
            return ValueError(f"{response.model} wrote {len(edit.text)} characters; at most {self.max_length} count.")
        return edit

    def _parse_edit(self, request: EditRequest, base: str, response: TextResponse) -> _ParsedEdit:
        blocks = self.diff_parser(response.text)
        if blocks:
            result = apply_blocks(base, blocks)
            if not result.num_applied:
                raise ValueError(f"no block of {response.model} could be applied: {'; '.join(result.problems)}.")
            return _ParsedEdit(result.text, "diff", result.problems)
        text = extract_code(response.text, self.language)
        if text is None:
            raise ValueError(
                f"{response.model} replied without a program: {response.text[:80]!r}. Ask for one fenced block."
            )
        return _ParsedEdit(splice(base, text), "cross" if request.mode == "cross" else "rewrite")


def _choose_partner(context: function.ProposalContext, parent: function.Function) -> function.Function | None:
    """Draws another program that ran, of those that the step shows."""
    candidates = [
        *context.parents,
        *(fn for role, fns in context.inspirations.items() if role != "failed" for fn in fns),
    ]
    scored = {str(fn.skeleton()): fn for fn in candidates if fn.evaluation is not None and fn.score() is not None}
    scored.pop(str(parent.skeleton()), None)
    return context.rng.choice(list(scored.values())) if scored else None


def _build_function(
    request: EditRequest, edit: _ParsedEdit, response: TextResponse, prompt: Prompt, *, is_repaired: bool = False
) -> function.Function:
    parent, base = request.parent, str(request.parent.skeleton())
    parents = [parent, request.partner] if request.partner else [parent]
    meta: dict[str, JSON] = {"engine": edit.mode, "model": response.model, "change": summarize_change(base, edit.text)}
    meta |= {"from_score": parent.score()} if parent.evaluation is not None else {}
    meta |= {"is_repaired": True} if is_repaired else {}
    meta |= {"cut": list(prompt.omitted)} if prompt.omitted else {}
    problems = [problem[:_MAX_PROBLEM_LENGTH] for problem in edit.problems[:_MAX_PROBLEMS]]
    meta |= {"problems": problems} if problems else {}
    return function.derive_child(parent, with_text(parent, edit.text), parents=parents, **meta)
