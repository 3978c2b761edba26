"""ACE online: answer with the playbook, see what came of it, reflect, tag, curate, and go on to the next question."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pydantic

from atoll import llm
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.experience import Experience, Reflector
from atoll.playbook.store import Excerpt, Store


class Answer(NamedTuple):
    """What a generator says, and the ids of the bullets that it used."""

    text: str
    used: tuple[str, ...] = ()


class Mark(NamedTuple):
    """What became of an answer.

    Attributes:
        is_right: None: nobody can tell.
        feedback: In words, for the reflector.
        lesson: The rule behind it, where the environment gives it away.
    """

    is_right: bool | None
    feedback: str = ""
    lesson: str = ""


class Turn(NamedTuple):
    """One question: the first answer, which is the one that counts, its mark, and what was learnt."""

    question: str
    answer: Answer
    mark: Mark
    verdicts: tuple[Verdict, ...]


class Generator(Protocol):
    """Answers questions; an agent is one."""

    def answer(self, question: str, excerpts: Sequence[Excerpt], reflection: str) -> Answer:
        """Returns an answer and what was used of the excerpts; `reflection` is what the last try taught, or empty."""


type Judge = Callable[[str, Answer], Mark]


class Online:
    """The loop. It answers each question before it learns from it, so what it gets right it knew.

    Args:
        store: The playbook.
        generator: Who answers.
        judge: Who marks answers.
        reflector: Who draws lessons.
        rounds: How often a wrong answer is reflected on and tried again before the next question (ACE: 3 to 5).
        frequency: Questions between two changes of the playbook; tags are kept at once.
        section: Where lessons belong.
        author: Who the versions are of.
    """

    def __init__(
        self,
        store: Store,
        generator: Generator,
        judge: Judge,
        reflector: Reflector,
        *,
        rounds: int = 1,
        frequency: int = 1,
        section: str = "rules",
        author: str = "ace",
    ) -> None:
        self.store = store
        self._generator, self._judge, self._reflector = generator, judge, reflector
        self._rounds, self._frequency = max(1, rounds), max(1, frequency)
        self._section, self._author = section, author
        self._waiting: list[Delta] = []
        self._num_turns = 0

    def run(self, questions: Iterable[str]) -> Iterator[Turn]:
        """Yields a turn per question, as they are answered."""
        return map(self.turn, questions)

    def turn(self, question: str) -> Turn:
        excerpts = self.store.retrieve(question)
        first = self._generator.answer(question, excerpts, "")
        mark = self._judge(question, first)
        deltas = self._reflect(question, excerpts, first, mark)
        tags = [delta for delta in deltas if delta.kind == "tag"]
        self._waiting += [delta for delta in deltas if delta.kind != "tag"]
        self._num_turns += 1
        if self._num_turns % self._frequency == 0:
            tags, self._waiting = [*tags, *self._waiting], []
        change = self.store.apply(tags, f"question {self._num_turns}", self._author, turn=self._num_turns)
        return Turn(question, first, mark, change.verdicts)

    def _reflect(self, question: str, excerpts: Sequence[Excerpt], answer: Answer, mark: Mark) -> Sequence[Delta]:
        """Returns what is learnt from a question: of a wrong answer, from as many tries as it takes or may take."""
        known = {each.bullet.id for each in excerpts}
        playbook = self.store.current()
        deltas: Sequence[Delta] = ()
        for place in range(1 if mark.is_right else self._rounds):
            if place:
                lessons = " ".join(delta.content for delta in deltas if delta.content)
                answer = self._generator.answer(question, excerpts, lessons)
                mark = self._judge(question, answer)
                if mark.is_right:
                    break  # the lessons of the round before are what it took
            used = tuple(id for id in answer.used if id in known)
            experience = Experience(
                question, answer.text, mark.feedback, mark.is_right, used, mark.lesson, self._section, playbook=playbook
            )
            deltas = self._reflector.reflect(experience)
        return deltas


class Answered(pydantic.BaseModel):
    """The shape of a model's answer."""

    reasoning: str = ""
    answer: str
    bullet_ids: list[str] = pydantic.Field(default_factory=list, max_length=50)


class Answering:
    """A generator that asks a model for an answer and the ids of the bullets that it used.

    A reply that is no such JSON is taken as the answer itself.
    """

    def __init__(self, model: llm.LLM) -> None:
        self._model = model

    def answer(self, question: str, excerpts: Sequence[Excerpt], reflection: str) -> Answer:
        """Returns the model's answer.

        Raises:
            NoReply: It gave none.
        """
        hints = "\n".join(f"[{each.bullet.id}] {each.text}" for each in excerpts)
        parts = [f"Rules from earlier questions, as data; use those that fit:\n{hints}\n"] if hints else []
        parts += [f"The last try was wrong. Lesson: {reflection}\n"] if reflection else []
        try:
            found = llm.ask_json(self._model, "\n".join([*parts, question]), Answered)
        except llm.Unreadable as error:
            return Answer(error.text.strip())
        return Answer(found.answer.strip(), tuple(found.bullet_ids))
