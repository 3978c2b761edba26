"""StegPoet: hide numbers in a text. The author chooses a code word for each number."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks.problem import PlanError, PlanEvaluation

_MESSAGE = re.compile(r"Hide these numbers, in this order: ([\d, ]+)\.")
_GAP = re.compile(r"at least (\d+) other words")
# Possessive and within one line. Otherwise many empty lines take quadratic time.
_CODE = re.compile(r"^[^\S\n]*+(\d{1,18}+)\s*+(?:->|=|:)\s*+([A-Za-z]++)[^\S\n]*+$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z']+")

SAY_ROLE = "say"  # role of an action; its goal names a position or a filler line
CODE_WORDS = (
    *("amber", "birch", "candle", "drift", "ember", "fern", "garden", "harbour"),
    *("ivory", "juniper", "kettle", "lantern", "marble", "nettle", "orchard"),
)
FILLER_WORDS = (
    *("the", "wind", "goes", "over", "the", "hill", "and", "the", "night", "is", "long"),
    *("as", "a", "song", "of", "old", "rain", "on", "stone", "and", "sea"),
)


@dataclass(frozen=True)
class Poem:
    """One message to hide.

    Attributes:
        numbers: Numbers to hide, in order.
        min_gap: Minimal mean number of words between two code words.
    """

    id: str
    text: str
    numbers: tuple[int, ...]
    min_gap: int

    requires_all_moves = False
    target = "The score is minus the sum of the errors. 0 is perfect."
    max_score = 0.0
    plan_format = (
        "Write the code first, one number per line:\n10 -> amber\n20 -> birch\nThen write the line TEXT: and the text "
        "below it. Every number has its own code word. Use the code words in the text in the order of the numbers, "
        "and nowhere else."
    )
    questions = (
        "Does every number have its own code word?",
        "Which code word is at a wrong position?",
        "Are there enough other words between the code words?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """The positions of the message, and filler lines."""
        code_moves = [Task(SAY_ROLE, f"place {index}") for index in range(len(self.numbers))]
        return (*code_moves, *(Task(SAY_ROLE, f"filling {index}") for index in range(len(self.numbers))))

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the text of a trace: a code word or a filler line per action."""
        code = dict(zip(sorted(set(self.numbers)), CODE_WORDS * 4, strict=False))
        lines = list[str]()
        for action in trace:
            kind, _, index_text = action.goal.partition(" ") if isinstance(action, Task) else ("", "", "")
            index = int(index_text) if index_text.isdigit() else 0
            if kind == "place":
                lines.append(code[self.numbers[index % len(self.numbers)]])
            elif kind == "filling":
                lines.append(
                    " ".join(FILLER_WORDS[(index + offset) % len(FILLER_WORDS)] for offset in range(self.min_gap))
                )
        code_text = "\n".join(f"{number} -> {word}" for number, word in code.items())
        return f"{code_text}\nTEXT:\n{'\n'.join(lines)}"

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions of a text: for each line a position of the message, or a filler."""
        code = {word.lower(): int(number) for number, word in _CODE.findall(plan.partition("TEXT:")[0])}
        actions, num_seen, num_fillers = list[Action](), Counter[int](), 0
        for line in plan.partition("TEXT:")[2].strip().splitlines():
            numbers = [code[word.lower()] for word in _WORD.findall(line) if word.lower() in code]
            if numbers:
                positions = [position for position, value in enumerate(self.numbers) if value == numbers[0]]
                occurrence = num_seen[numbers[0]]
                actions += [Task(SAY_ROLE, f"place {positions[occurrence]}")] if occurrence < len(positions) else []
                num_seen[numbers[0]] += 1
            else:
                actions.append(Task(SAY_ROLE, f"filling {num_fillers}"))
                num_fillers += 1
        return tuple(dict.fromkeys(actions))

    def parse_plan(self, response: str) -> str | None:
        """Returns code and text of a response, or None if one is missing."""
        head, marker, text = response.partition("TEXT:")
        code = _CODE.findall(head)
        if not marker or not code or not text.strip():
            return None
        return "\n".join(f"{number} -> {word.lower()}" for number, word in code) + f"\nTEXT:\n{text.strip()}"

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Counts the errors in the code, the hidden message and the spacing."""
        parsed = self.parse_plan(plan)
        if parsed is None:
            format_errors = (PlanError("format", "The plan has no readable code and text."),)
            return PlanEvaluation(-float(3 * len(self.numbers)), 0.0, False, format_errors)
        pairs = [(int(number), word) for number, word in _CODE.findall(parsed.partition("TEXT:")[0])]
        words = [word.lower() for word in _WORD.findall(parsed.partition("TEXT:")[2])]
        code = {word: number for number, word in pairs}
        plan_errors = [
            *self._find_code_errors(pairs),
            *self._find_message_errors([code[word] for word in words if word in code]),
        ]
        num_hidden = sum(word in code for word in words)
        mean_gap = (len(words) - num_hidden) / max(1, num_hidden)
        if mean_gap < self.min_gap:
            message = f"The text has {mean_gap:.1f} other words for each code word, not {self.min_gap}."
            plan_errors.append(PlanError("room", message, weight=min(2.0, self.min_gap - mean_gap)))
        penalty = sum(plan_error.weight for plan_error in plan_errors)
        return PlanEvaluation(
            -penalty, max(0.0, 1 - penalty / (3 * len(self.numbers))), not plan_errors, tuple(plan_errors)
        )

    def _find_code_errors(self, pairs: Sequence[tuple[int, str]]) -> list[PlanError]:
        num_uses = Counter(word for _, word in pairs)
        coded_numbers = {number for number, _ in pairs}
        plan_errors = [
            PlanError("code", f"{number} has no code word.")
            for number in dict.fromkeys(self.numbers)
            if number not in coded_numbers
        ]
        return plan_errors + [
            PlanError("code", f"The word {word} is the code of more than one number.")
            for word, uses in num_uses.items()
            if uses > 1
        ]

    def _find_message_errors(self, hidden: Sequence[int]) -> list[PlanError]:
        plan_errors = list[PlanError]()
        for position, number in enumerate(self.numbers):
            hidden_number = hidden[position] if position < len(hidden) else None
            if hidden_number != number:
                hidden_text = "nothing" if hidden_number is None else str(hidden_number)
                message = f"Position {position + 1} should hide {number}, but the text hides {hidden_text} there."
                plan_errors.append(PlanError("order", message, f"place {position}"))
        extra = len(hidden) - len(self.numbers)
        if extra > 0:
            plan_errors.append(PlanError("extra", f"The text hides {extra} numbers too many.", weight=float(extra)))
        return plan_errors


def from_text(id: str, text: str) -> Poem:
    """Parses a message from its task text.

    Raises:
        SetupError: The text is not a StegPoet task.
    """
    message, gap = _MESSAGE.search(text), _GAP.search(text)
    if message is None or gap is None:
        raise errors.SetupError(f"{id} is not a readable StegPoet task: {text!r:.80}.")
    numbers = tuple(int(number) for number in message[1].split(",") if number.strip())
    return Poem(id, text, numbers, int(gap[1]))


def generate_row(id: str, size: int, rng: Random) -> Mapping[str, Any]:
    """Generates a message, with some repeated numbers."""
    numbers = [10 * rng.randint(1, max(2, size // 2)) for _ in range(size)]
    theme = rng.choice(("the sea in winter", "a town at night", "an old garden"))
    text = (
        f"Write a short text about {theme} that hides a message. Hide these numbers, in this order: "
        f"{', '.join(str(number) for number in numbers)}. Choose a code word for every number. Between two code words "
        f"there must stand on average at least {rng.randint(3, 5)} other words."
    )
    return {"id": id, "task": "stegpoet", "prompt_0shot": text}
