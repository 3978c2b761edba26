"""The engine that lets a language model write a whole new program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from atoll import function
from atoll.mutation.fences import fenced_code
from atoll.mutation.markers import spliced
from atoll.mutation.skeletons import skeleton_of


class Answer(Protocol):
    """What a model answered: `llm.Reply` is one."""

    @property
    def text(self) -> str: ...

    @property
    def model(self) -> str: ...


class Model(Protocol):
    """Whoever answers a prompt: every `llm.LLM` does. A durable one is asked once per step, also after a cut."""

    def __call__(self, prompt: str, /) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Asks a model once per step and takes the program out of its reply; outside of EVOLVE-BLOCKs nothing changes.

    Attributes:
        llm: Who is asked.
        ask: Makes the prompt of a task; `program_prompt` with a description is one.
        read: Finds the program in a reply; None if there is none.
    """

    llm: Model
    ask: Callable[[function.Task], str]
    read: Callable[[str], str | None] = fenced_code

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns one child.

        Raises:
            ValueError: The reply has no program in it, has lost a marker, or is only the parent again.
        """
        parent = task.parents[-1]
        reply = self.llm(self.ask(task))
        text = self.read(reply.text)
        if text is None:
            raise ValueError(f"{reply.model} replied without a program: {reply.text[:80]!r}. Ask for one fenced block.")
        text = spliced(str(parent.skeleton()), text)
        if text.split() == str(parent.skeleton()).split():
            raise ValueError(f"{reply.model} replied with the program that it was shown.")
        return [function.draft(parent, skeleton_of(parent, text), engine="rewrite", model=reply.model)]
