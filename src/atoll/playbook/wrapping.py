"""A playbook for any agent: a plain function, or an agent of pydantic-ai."""

from collections.abc import Callable, Sequence
from typing import Any

from atoll import errors, store
from atoll.playbook.delta import Verdict
from atoll.playbook.learners import format_rules
from atoll.playbook.reflectors import Experience, Reflector, TaggingReflector
from atoll.playbook.retrieval import Excerpt
from atoll.playbook.store import PlaybookStore


class PlaybookAgent:
    """Agent that gets the matching rules with each task, and learns from what you say about its answers.

    Attributes:
        store: The playbook.
    """

    def __init__(
        self, call: Callable[[str, str], str], store: PlaybookStore, reflector: Reflector, section: str, author: str
    ) -> None:
        self.store = store
        self._call, self._reflector, self._section, self._author = call, reflector, section, author
        self._last: tuple[str, str, Sequence[Excerpt], str] | None = None

    def __call__(self, task: str) -> str:
        """Returns the answer of the agent to a task with the matching rules."""
        excerpts = self.store.retrieve(task)
        answer = self._call(task, format_rules(excerpts))
        self.remember(task, answer, excerpts)
        return answer

    def remember(self, task: str, answer: str, excerpts: Sequence[Excerpt], trace: str = "") -> None:
        """Notes the last answer, for `learn`."""
        self._last = task, answer, excerpts, trace

    def learn(
        self,
        *,
        is_success: bool | None,
        feedback: str = "",
        lesson: str = "",
        trace: str = "",
        used: Sequence[str] | None = None,
    ) -> Sequence[Verdict]:
        """Learns from the last answer. Returns the decisions on the proposed changes.

        Args:
            is_success: Whether the answer was right; None means unknown.
            feedback: What was wrong or right about it.
            lesson: The rule behind the task, if you know it.
            trace: Reasoning and steps of the agent; empty means the answer.
            used: Ids of the rules behind the answer. None means all that it got; none of them if you state the lesson
                of a wrong answer, because then a rule was missing.

        Raises:
            SetupError: The agent has not answered yet.
        """
        if self._last is None:
            raise errors.SetupError("The agent has not answered yet. Call the agent first.")
        task, answer, excerpts, kept_trace = self._last
        if used is None:
            used = [] if is_success is False and lesson else [excerpt.bullet.id for excerpt in excerpts]
        fields = (task, answer, feedback, is_success, tuple(used), lesson, self._section)
        experience = Experience(*fields, playbook=self.store.current(), trace=trace or kept_trace or answer)
        deltas = self._reflector.reflect(experience)
        return self.store.apply(deltas, feedback[:200] or "feedback", self._author).verdicts


def wrap(
    agent: Callable[[str], str],
    playbook_store: PlaybookStore | None = None,
    *,
    reflector: Reflector | None = None,
    section: str = "rules",
    author: str = "agent",
) -> PlaybookAgent:
    """Returns an agent with a playbook.

    Args:
        agent: Function from task to answer. It gets the matching rules before the task.
        playbook_store: The playbook; None means a new one in memory.
        reflector: Proposes changes; None tags used rules by success and adds the lesson that you give.
        section: Section of new bullets.
        author: Author of the versions.
    """

    def call(task: str, rules: str) -> str:
        return agent(f"{rules}\n{task}" if rules else task)

    return PlaybookAgent(call, *_complete(playbook_store, reflector), section, author)


class PydanticAIPlaybookAgent(PlaybookAgent):
    """Agent of pydantic-ai with a playbook. The matching rules are instructions of each run."""

    def __init__(self, agent: Any, *arguments: Any) -> None:
        super().__init__(lambda task, rules: str(self.run_sync(task).output), *arguments)
        self._agent = agent
        self._task = ""

        @agent.instructions  # type: ignore[untyped-decorator]
        def add_rules() -> str:
            return format_rules(self.store.retrieve(self._task)) if self._task else ""

    def run_sync(self, task: str, **options: Any) -> Any:
        """Runs the agent as its own `run_sync` does. Returns the result of pydantic-ai."""
        self._task = task
        excerpts = self.store.retrieve(task)
        result = self._agent.run_sync(task, **options)
        self.remember(task, str(result.output), excerpts, _format_messages(result))
        return result

    async def run(self, task: str, **options: Any) -> Any:
        """Runs the agent as its own `run` does, one task at a time. Returns the result of pydantic-ai."""
        self._task = task
        excerpts = self.store.retrieve(task)
        result = await self._agent.run(task, **options)
        self.remember(task, str(result.output), excerpts, _format_messages(result))
        return result


def wrap_pydantic_ai(
    agent: Any,
    playbook_store: PlaybookStore | None = None,
    *,
    reflector: Reflector | None = None,
    section: str = "rules",
    author: str = "agent",
) -> PydanticAIPlaybookAgent:
    """Returns an agent of pydantic-ai with a playbook. The arguments are those of `wrap`."""
    return PydanticAIPlaybookAgent(agent, *_complete(playbook_store, reflector), section, author)


def _complete(playbook_store: PlaybookStore | None, reflector: Reflector | None) -> tuple[PlaybookStore, Reflector]:
    if playbook_store is None:
        playbook_store = PlaybookStore(store.MemoryVersions())
    if not isinstance(playbook_store, PlaybookStore):
        raise errors.SetupError(
            f"{playbook_store!r:.60} is not a playbook store. Use playbook.PlaybookStore(versions)."
        )
    return playbook_store, reflector or TaggingReflector()


def _format_messages(result: Any) -> str:
    """Returns the messages of a run as text: tool calls, their results and answers."""
    parts = [part for message in result.all_messages() for part in message.parts]
    return "\n".join(
        f"{part.part_kind}: {getattr(part, 'content', None) or getattr(part, 'args', '')}" for part in parts
    )
