"""Engines that make new functions, and tell it."""

from collections.abc import Sequence

from atoll import function, llm, mutation, profiler
from atoll.llmsr import prompt, reply
from atoll.llmsr.source import parse_functions


class PyMutationEngine:
    """Shows an LLM the functions as versions, worst first, and reads the next version from its reply.

    Args:
        prompt_comment: What the function is for, in the user's words.
        docstring: Shown unchanged in every prompt.
        model: Asked once per mutation.
    """

    def __init__(self, prompt_comment: str, docstring: str, language_model: llm.LLM) -> None:
        self._comment, self._docstring, self._llm = prompt_comment, docstring, language_model
        self._profilers = profiler.Profilers[function.MutationEngineEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[function.MutationEngineEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    def mutate(self, fn_list: list[function.Function]) -> function.Function:
        """Asks for the next version.

        Raises:
            ValueError: The reply holds no function that could be used.
        """
        self._profilers.emit(function.OnMutate("on_mutate", fn_list))
        ordered = sorted(fn_list, key=function.get_fitness)
        sources = [next(parse_functions(str(fn.skeleton()))) for fn in ordered]
        response = self._llm(prompt.build_prompt(sources, self._comment, self._docstring))
        text = reply.parse_response(response.text, sources[-1], len(sources))
        parent = ordered[-1]
        child = function.derive_child(parent, mutation.with_text(parent, text), engine="llm", model=response.model)
        self._profilers.emit(function.OnMutated("on_mutated", (fn_list, child)))
        return child


class AnnouncingProposer:
    """A proposer whose work is announced like a mutation engine's."""

    def __init__(self, proposer: function.Proposer) -> None:
        self._proposer = proposer
        self._profilers = profiler.Profilers[function.MutationEngineEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[function.MutationEngineEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parents = list(context.parents)
        self._profilers.emit(function.OnMutate("on_mutate", parents))
        children = self._proposer.propose(context)
        for child in children:
            self._profilers.emit(function.OnMutated("on_mutated", (parents, child)))
        return children
