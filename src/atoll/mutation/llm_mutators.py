"""Mutators that ask an LLM: for a whole program, for a diff, or for a combination of two programs."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Protocol, get_args

from atoll import errors, function
from atoll.candidate import JSON
from atoll.mutation.diffs import DiffParser, apply_blocks, parse_blocks
from atoll.mutation.text_blocks import extract_code, splice, summarize_change, with_text


class TextResponse(Protocol):
    """Response of an LLM, such as `llm.Response`."""

    @property
    def text(self) -> str: ...

    @property
    def model(self) -> str: ...


class LLMCallable(Protocol):
    """Anything that answers a prompt, such as an `llm.LLM`. A journaled one repeats no call when a run resumes."""

    def __call__(self, prompt: str, /) -> TextResponse: ...


@dataclass(frozen=True, slots=True)
class RewriteMutator:
    """Asks an LLM once per iteration for a whole program. Text outside of EVOLVE-BLOCKs does not change.

    Attributes:
        llm: The LLM to ask.
        build_prompt: Makes the prompt, for example `build_program_prompt` with a description.
        extract_program: Returns the program in a response, or None.
    """

    llm: LLMCallable
    build_prompt: Callable[[function.ProposalContext], str]
    extract_program: Callable[[str], str | None] = extract_code

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child.

        Raises:
            ValueError: The response has no program, lacks a marker, or repeats the parent.
        """
        parent = context.parents[-1]
        response = self.llm(self.build_prompt(context))
        text = self.extract_program(response.text)
        if text is None:
            raise ValueError(
                f"The response of {response.model} has no program: {response.text[:80]!r}. Ask for one fenced block."
            )
        text = splice(str(parent.skeleton()), text)
        if text.split() == str(parent.skeleton()).split():
            raise ValueError(f"The response of {response.model} repeats the program in the prompt.")
        return [function.derive_child(parent, with_text(parent, text), engine="rewrite", model=response.model)]


type Mode = Literal["diff", "rewrite", "cross"]

MODES: Sequence[str] = get_args(Mode.__value__)
_MAX_PROBLEMS, _MAX_PROBLEM_LENGTH = 4, 200  # of a diff, in the meta of the child


@dataclass(frozen=True, slots=True)
class EditRequest:
    """Request for one change.

    Attributes:
        parent: The program to change.
        mode: Requested form of the response.
        partner: The second program of a crossover.
        failure: In a repair request, the reason why the last response was not usable.
        response: In a repair request, the last response.
    """

    parent: function.Function
    mode: Mode
    partner: function.Function | None = None
    failure: str = ""
    response: str = ""


class Prompt(NamedTuple):
    """Prompt, and the sections omitted for its length."""

    text: str
    omitted: Sequence[str] = ()


class PromptBuilder(Protocol):
    """Makes the prompt of a request; the same arguments give the same prompt."""

    def __call__(self, context: function.ProposalContext, request: EditRequest, /) -> Prompt: ...


class _ParsedEdit(NamedTuple):
    """New text, and the problems of blocks that were not applied."""

    text: str
    mode: Mode
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class EditMutator:
    """Asks an LLM for changes and makes children from its responses. Text outside of EVOLVE-BLOCKs does not change.

    A response may have SEARCH/REPLACE blocks or a fenced program, independent of the requested form. Any other
    response is a failed proposal. The settings of a run or its learner may set `mode` for an iteration.

    Attributes:
        llm: The LLM to ask.
        build_prompt: Makes the prompts.
        language: Label of the fence around a whole program.
        mode: Requested form of the response.
        crossover: Probability of asking for a combination of two programs instead.
        num_proposals: Responses per iteration, one child each. The parents take turns, best first.
        can_repair: Whether the LLM may repair an unusable or partly usable response once.
        diff_parser: Returns the blocks of a response.
        max_length: Maximal length of a program, in characters.
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
        """Returns a child for each usable response.

        Raises:
            ValueError: No response was usable. The error is that of the first response.
        """
        num_requests = self.num_proposals
        if context.max_evaluations is not None:
            num_requests = max(1, min(num_requests, context.max_evaluations))
        children, failures = list[function.Function](), list[BaseException]()
        for request in self._iter_requests(context, num_requests):
            make_child = partial(self._make_child, context, request)
            child = errors.capture(make_child, (errors.JournalFailed, errors.SetupError))
            if not isinstance(child, errors.CaughtException):
                children.append(child)
                continue
            failures.append(child.error)
            if not isinstance(child.error, ValueError):
                break  # the LLM does not respond; earlier responses count
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
            with contextlib.suppress(errors.BudgetUsed):  # no call is left for a repair
                repair_response = self.llm(repair_prompt.text)
                repaired_edit = self._try_parse(request, repair_response)
                if isinstance(repaired_edit, _ParsedEdit):
                    return _build_function(request, repaired_edit, repair_response, repair_prompt, is_repaired=True)
        if isinstance(edit, ValueError):
            raise edit
        return _build_function(request, edit, response, prompt)

    def _try_parse(self, request: EditRequest, response: TextResponse) -> "_ParsedEdit | ValueError":
        """Returns the edit in a response, or the error."""
        base = str(request.parent.skeleton())
        try:
            edit = self._parse_edit(request, base, response)
        except ValueError as error:
            return error
        if edit.text.split() == base.split():
            return ValueError(f"The response of {response.model} repeats the program in the prompt.")
        if len(edit.text) > self.max_length:
            return ValueError(f"{response.model} wrote {len(edit.text)} characters. The limit is {self.max_length}.")
        return edit

    def _parse_edit(self, request: EditRequest, base: str, response: TextResponse) -> _ParsedEdit:
        blocks = self.diff_parser(response.text)
        if blocks:
            result = apply_blocks(base, blocks)
            if not result.num_applied:
                raise ValueError(f"No block of {response.model} was applied: {'; '.join(result.problems)}.")
            return _ParsedEdit(result.text, "diff", result.problems)
        text = extract_code(response.text, self.language)
        if text is None:
            raise ValueError(
                f"The response of {response.model} has no program: {response.text[:80]!r}. Ask for one fenced block."
            )
        return _ParsedEdit(splice(base, text), "cross" if request.mode == "cross" else "rewrite")


def _choose_partner(context: function.ProposalContext, parent: function.Function) -> function.Function | None:
    """Draws another scored program of the context."""
    others = (fn for role, fns in context.inspirations.items() if role != "failed" for fn in fns)
    candidates = [*context.parents, *others]
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
