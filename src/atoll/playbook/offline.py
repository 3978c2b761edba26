"""Offline learning of ACE: epochs over training questions, with validation questions that decide which changes stay."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Literal, NamedTuple

from atoll import errors
from atoll.playbook.delta import Delta, Verdict, add, remove
from atoll.playbook.learners import Answer, Generator, Grade, Grader, ask, check_parts, grade_answer
from atoll.playbook.playbook import Playbook
from atoll.playbook.reflectors import Experience, Reflector
from atoll.playbook.retrieval import BulletIndex, Excerpt, make_excerpts
from atoll.playbook.store import PlaybookStore

_MIN_FRAME_CHARS = 40  # a shorter text that all questions share stays in examples

type Decision = Literal["accepted", "rejected", "no change"]


class Round(NamedTuple):
    """One batch of training questions.

    Attributes:
        decision: `accepted` if the changed playbook won on the validation questions.
        train: Right answers and questions of the batch.
        before, after: Right answers on the validation questions, with the old and the changed playbook.
        wins, losses: Validation questions that only the changed, or only the old playbook gets right.
        verdicts: Decisions of the curator on the proposed changes.
    """

    epoch: int
    decision: Decision
    train: tuple[int, int]
    before: int
    after: int
    wins: int
    losses: int
    verdicts: tuple[Verdict, ...]


class OfflineResult(NamedTuple):
    """Result of offline learning.

    Attributes:
        playbook: The playbook at the end; the one before if nothing helped.
        first, last: Right answers on the validation questions before and after.
        summary: One sentence; "no gain: nothing kept" if no change helped.
    """

    playbook: Playbook
    rounds: tuple[Round, ...]
    first: int
    last: int
    num_validation: int
    summary: str


class OfflineLearner:
    """Learns a playbook from questions with known answers, and keeps a change only if it helps.

    In each round the generator answers a batch of training questions, the reflector proposes deltas, and the curator
    applies them to a copy. The batch is answered again with the copy, and new rules that were used in more wrong than
    right answers are removed from it. Then both playbooks answer the validation questions. The copy replaces the
    playbook if it wins more questions than it loses, by more than one standard deviation of chance. If it does not, the
    training questions are tried as examples, in the same way: all of them if the grader states the right answers, else
    the wrongly answered ones with their feedback. Rejected examples are tried again together with those of the next
    batch, because few examples match few questions. Accepted changes are versions of the store, so that
    `store.rollback` undoes them.

    Args:
        store: The playbook. Its curator decides on deltas.
        generator: Answers questions.
        grader: Grades answers.
        reflector: Returns deltas.
        num_jobs: Questions in flight at once. Generator, grader and reflector must be safe to share between threads.
        batch_size: Training questions per round; 0 means all of an epoch.
        has_examples: Whether examples are tried where rules do not help.
        section: Section of new bullets.
        author: Author of the versions.
    """

    def __init__(
        self,
        store: PlaybookStore,
        generator: Generator,
        grader: Grader,
        reflector: Reflector,
        *,
        num_jobs: int = 1,
        batch_size: int = 0,
        has_examples: bool = True,
        section: str = "rules",
        author: str = "ace",
    ) -> None:
        check_parts(generator, reflector)
        self.store = store
        self._generator, self._grader, self._reflector = generator, grader, reflector
        self._num_jobs, self._batch_size, self._has_examples = max(1, num_jobs), batch_size, has_examples
        self._section, self._author = section, author
        self._frame = ("", "")
        self._examples = list[Delta]()  # of all batches since the last accepted ones

    def learn(
        self, train: Sequence[str], validation: Sequence[str], *, epochs: int = 1, seed: int = 0
    ) -> OfflineResult:
        """Returns the learned playbook.

        Args:
            train: Training questions.
            validation: Other questions, which decide which changes stay.
            epochs: Passes over the training questions.
            seed: Seed of the order of questions.

        Raises:
            SetupError: The training or validation questions are empty, or not texts.
        """
        for name, questions in (("training", train), ("validation", validation)):
            if not questions or isinstance(questions, str) or not all(isinstance(text, str) for text in questions):
                raise errors.SetupError(f"The {name} questions are {questions!r:.60}. Pass a list of texts.")
        rounds = list[Round]()
        self._frame, self._examples = _find_frame(train), []
        baseline = self.answer_all(self.store.current(), validation)
        results = baseline
        for epoch in range(1, epochs + 1):
            for batch in self._iter_batches(train, Random(f"{seed}/{epoch}")):
                done, results = self._run_round(epoch, batch, validation, results)
                rounds.append(done)
        first, last, count = sum(baseline), sum(results), len(validation)
        num_accepted = sum(done.decision == "accepted" for done in rounds)
        gain = f"{num_accepted} of {len(rounds)} rounds accepted: {first} of {count} right before, {last} after"
        summary = gain if num_accepted else f"no gain: nothing kept ({first} of {count} right)"
        return OfflineResult(self.store.current(), tuple(rounds), first, last, count, summary)

    def answer_all(self, playbook: Playbook, questions: Sequence[str]) -> list[bool]:
        """Returns whether each question is answered right with a playbook."""
        excerpts = self._make_finder(playbook)

        def answer(question: str) -> bool:
            rules = excerpts(question)
            return bool(grade_answer(self._grader, question, ask(self._generator, question, rules)).is_correct)

        return self._map(answer, questions)

    def _run_round(
        self, epoch: int, batch: Sequence[str], validation: Sequence[str], results: list[bool]
    ) -> tuple[Round, list[bool]]:
        playbook = self.store.current()
        excerpts = self._make_finder(playbook)

        def study(question: str) -> tuple[Grade, Sequence[Delta]]:
            rules = excerpts(question)
            answer = ask(self._generator, question, rules)
            grade = grade_answer(self._grader, question, answer)
            return grade, self._reflector.reflect(self._make_experience(question, answer, grade, rules))

        studied = self._map(study, batch)
        train = (sum(bool(grade.is_correct) for grade, _ in studied), len(batch))
        candidate, verdicts = self._decide(playbook, [deltas for _, deltas in studied])
        num_proposals = len(candidate.bullets.keys() - playbook.bullets.keys())
        if num_proposals:
            candidate, removed = self._remove_misleading(candidate, playbook, batch)
            verdicts += removed
        grades = [grade for grade, _ in studied]
        examples = [self._make_example(question, grade) for question, grade in zip(batch, grades, strict=True)]
        self._examples += [example for example in examples if example is not None]
        done = Round(epoch, "no change", train, sum(results), sum(results), 0, 0, tuple(verdicts))
        if _get_texts(candidate) != _get_texts(playbook):
            done, changed = self._validate(done, candidate, validation, results)
            if done.decision == "accepted":
                return done, changed
        elif not num_proposals:
            self.store.put(candidate, f"epoch {epoch}: counts only", self._author)
        else:
            done = done._replace(decision="rejected")
        if not self._has_examples:
            return done, results
        candidate, verdicts = self._decide(self.store.current(), [[example] for example in self._examples])
        if _get_texts(candidate) == _get_texts(self.store.current()):
            return done, results
        tried, changed = self._validate(
            done._replace(verdicts=(*done.verdicts, *verdicts)), candidate, validation, results
        )
        if tried.decision != "accepted":
            return (tried if done.decision == "no change" else done), results
        self._examples = []
        return tried, changed

    def _decide(self, playbook: Playbook, deltas: Sequence[Sequence[Delta]]) -> tuple[Playbook, list[Verdict]]:
        """Applies the deltas of each question in a turn of its own, so that the limits of a turn hold."""
        verdicts = list[Verdict]()
        for part in deltas:
            if part:
                playbook, decided = self.store.curator.decide(playbook, part)
                verdicts += decided
        return playbook, verdicts

    def _validate(
        self, done: Round, candidate: Playbook, validation: Sequence[str], results: list[bool]
    ) -> tuple[Round, list[bool]]:
        """Answers the validation questions with a changed playbook, and keeps it if it wins."""
        changed = self.answer_all(candidate, validation)
        wins = sum(new and not old for new, old in zip(changed, results, strict=True))
        losses = sum(old and not new for new, old in zip(changed, results, strict=True))
        is_better = wins - losses > math.sqrt(wins + losses)
        if is_better:
            counts = f"{sum(changed)} of {len(validation)} right on validation, {done.before} before"
            self.store.put(candidate, f"epoch {done.epoch}: {counts}", self._author)
        decision: Decision = "accepted" if is_better else "rejected"
        return done._replace(decision=decision, after=sum(changed), wins=wins, losses=losses), changed

    def _remove_misleading(
        self, candidate: Playbook, playbook: Playbook, batch: Sequence[str]
    ) -> tuple[Playbook, Sequence[Verdict]]:
        """Answers the batch again and removes new rules that are used in more wrong than right answers."""
        excerpts = self._make_finder(candidate)

        def answer(question: str) -> tuple[int, tuple[str, ...]]:
            answer = ask(self._generator, question, excerpts(question))
            return (1 if grade_answer(self._grader, question, answer).is_correct else -1), answer.used

        balance = dict[str, int]()
        for value, used in self._map(answer, batch):
            for id in set(used):
                balance[id] = balance.get(id, 0) + value
        misleading = [id for id in candidate.bullets if id not in playbook.bullets and balance.get(id, 0) < 0]
        reason = "used in more wrong than right answers to the training questions"
        verdicts = [Verdict(remove(id, source="learner"), "applied", reason, (id,)) for id in misleading]
        return candidate.without(misleading), verdicts

    def _make_experience(self, question: str, answer: Answer, grade: Grade, rules: Sequence[Excerpt]) -> Experience:
        rule_ids = {excerpt.bullet.id for excerpt in rules}
        used = tuple(id for id in answer.used if id in rule_ids)
        fields = (question, answer.text, grade.feedback, grade.is_correct, used, grade.lesson, self._section)
        return Experience(*fields, playbook=self.store.current(), trace=answer.trace)

    def _make_example(self, question: str, grade: Grade) -> Delta | None:
        """Returns a question with its right answer as a bullet, without the words that all questions share.

        None if neither the answer nor feedback on a wrong one is known, or if the text is too long.
        """
        text, feedback = " ".join(question.split()), " ".join(grade.feedback.split())
        start, end = self._frame
        if len(start) + len(end) < len(text):
            text = f"{'... ' if start else ''}{text[len(start) : len(text) - len(end)].strip()}{' ...' if end else ''}"
        if expected := " ".join(grade.expected.split()):
            content = f"Example: {text} Answer: {expected}"
        elif grade.is_correct is False and feedback:
            content = f"Example: {text} Feedback on a wrong answer: {feedback}"
        else:
            return None
        if len(content) > self.store.config.max_chars:
            return None
        return add("examples", content, evidence="a training question", source="learner")

    def _make_finder(self, playbook: Playbook) -> Callable[[str], Sequence[Excerpt]]:
        """Returns a function that finds the bullets for a question, best match first; all of them if there are few."""
        config, index = self.store.config, BulletIndex()
        index.sync(playbook.bullets)  # here, because threads may share an index only to read it

        def find(question: str) -> Sequence[Excerpt]:
            matches = make_excerpts(playbook, question, config, self.store.curator.meaning, index)
            if len(playbook) > config.context_limit:
                return matches
            known_ids = {match.bullet.id for match in matches}
            others = [bullet for bullet in playbook.bullets.values() if bullet.id not in known_ids]
            return [*matches, *(Excerpt(bullet, 0.0, bullet.content[: config.context_chars]) for bullet in others)]

        return find

    def _iter_batches(self, questions: Sequence[str], rng: Random) -> Iterator[Sequence[str]]:
        order = rng.sample(list(questions), len(questions))
        size = self._batch_size or max(1, len(order))
        return (order[start : start + size] for start in range(0, len(order), size))

    def _map[S, T](self, function: Callable[[S], T], items: Sequence[S]) -> list[T]:
        if self._num_jobs == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self._num_jobs) as pool:
            return list(pool.map(function, items))


def _get_texts(playbook: Playbook) -> dict[str, str]:
    return {id: bullet.content for id, bullet in playbook.bullets.items()}


def _find_frame(questions: Sequence[str]) -> tuple[str, str]:
    """Returns the first and the last words that all questions share; each empty if they are short."""
    rows = [question.split() for question in questions]
    if len(rows) < 2:
        return "", ""
    start = " ".join(rows[0][: _count_common(rows)])
    end = " ".join(rows[0][len(rows[0]) - _count_common([row[::-1] for row in rows]) :])
    return start if len(start) >= _MIN_FRAME_CHARS else "", end if len(end) >= _MIN_FRAME_CHARS else ""


def _count_common(rows: Sequence[Sequence[str]]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda words: len(set(words)) == 1, zip(*rows, strict=False)))
