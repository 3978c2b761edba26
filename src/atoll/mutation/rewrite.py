"""The engine that lets a language model write a whole new program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from atoll import function
from atoll.mutation.fences import extract_code
from atoll.mutation.markers import splice
from atoll.mutation.skeletons import with_text


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
            raise ValueError(f"{response.model} replied without a program: {response.text[:80]!r}. Ask for one fenced block.")
        text = splice(str(parent.skeleton()), text)
        if text.split() == str(parent.skeleton()).split():
            raise ValueError(f"{response.model} replied with the program that it was shown.")
        return [function.derive_child(parent, with_text(parent, text), engine="rewrite", model=response.model)]
