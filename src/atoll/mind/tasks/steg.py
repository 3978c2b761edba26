"""StegPoet: numbers are hidden in a text, each as a code word of the author's choice, in order."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks.problem import Fault, Verdict

_MESSAGE = re.compile(r"Hide these numbers, in this order: ([\d, ]+)\.")
_GAP = re.compile(r"at least (\d+) other words")
# Possessive, and no line end at its ends: over many empty lines, a search from each would go to the end of all.
_CODE = re.compile(r"^[^\S\n]*+(\d{1,18}+)\s*+(?:->|=|:)\s*+([A-Za-z]++)[^\S\n]*+$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z']+")

SAY = "say"  # the role of an action: its goal is a line, or the number that it hides
WORDS = (
    *("amber", "birch", "candle", "drift", "ember", "fern", "garden", "harbour"),
    *("ivory", "juniper", "kettle", "lantern", "marble", "nettle", "orchard"),
)
FILLING = (
    *("the", "wind", "goes", "over", "the", "hill", "and", "the", "night", "is", "long"),
    *("as", "a", "song", "of", "old", "rain", "on", "stone", "and", "sea"),
)


@dataclass(frozen=True)
class Poem:
    """One message to hide.

    Attributes:
        numbers: What is to be hidden, in order.
        gap: How many words must stand between two code words on average.
    """

    id: str
    text: str
    numbers: tuple[int, ...]
    gap: int

    uses_all = False
    form = (
        "First the code, one number a line:\n10 -> amber\n20 -> birch\nThen the line TEXT: and below it the text. "
        "Every number has a code word of its own; the code words stand in the text in the order of the numbers, and "
        "nowhere else."
    )
    questions = (
        "Does every number have one word that no other number has?",
        "Which code word stands where the message does not want it?",
        "Are there enough other words between the code words?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """The message's places, and lines of filling."""
        places = [Task(SAY, f"place {place}") for place in range(len(self.numbers))]
        return (*places, *(Task(SAY, f"filling {place}") for place in range(len(self.numbers))))

    def write(self, trace: Sequence[Action]) -> str:
        """Returns the text of a trace: a code word, or a line of filling, for every action."""
        code = dict(zip(sorted(set(self.numbers)), WORDS * 4, strict=False))
        lines = list[str]()
        for each in trace:
            kind, _, place = each.goal.partition(" ") if isinstance(each, Task) else ("", "", "")
            at = int(place) if place.isdigit() else 0
            if kind == "place":
                lines.append(code[self.numbers[at % len(self.numbers)]])
            elif kind == "filling":
                lines.append(" ".join(FILLING[(at + each) % len(FILLING)] for each in range(self.gap)))
        told = "\n".join(f"{number} -> {word}" for number, word in code.items())
        return f"{told}\nTEXT:\n{'\n'.join(lines)}"

    def trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions in a text, line by line: which place of the message it hides, or that it hides none."""
        code = {word.lower(): int(number) for number, word in _CODE.findall(plan.partition("TEXT:")[0])}
        made, seen, filled = list[Action](), Counter[int](), 0
        for line in plan.partition("TEXT:")[2].strip().splitlines():
            numbers = [code[word.lower()] for word in _WORD.findall(line) if word.lower() in code]
            if numbers:
                free = [place for place, each in enumerate(self.numbers) if each == numbers[0]]
                at = seen[numbers[0]]
                made += [Task(SAY, f"place {free[at]}")] if at < len(free) else []
                seen[numbers[0]] += 1
            else:
                made.append(Task(SAY, f"filling {filled}"))
                filled += 1
        return tuple(dict.fromkeys(made))

    def parse(self, reply: str) -> str | None:
        """Returns code and text of a reply, or None if one of them is missing."""
        head, mark, text = reply.partition("TEXT:")
        code = _CODE.findall(head)
        if not mark or not code or not text.strip():
            return None
        return "\n".join(f"{number} -> {word.lower()}" for number, word in code) + f"\nTEXT:\n{text.strip()}"

    def judge(self, plan: str) -> Verdict:
        """Counts what is wrong with the code, with the hidden message, and with the room between its words."""
        parsed = self.parse(plan)
        if parsed is None:
            told = (Fault("format", "There are no code and text to be read."),)
            return Verdict(-float(3 * len(self.numbers)), 0.0, False, told)
        pairs = [(int(number), word) for number, word in _CODE.findall(parsed.partition("TEXT:")[0])]
        words = [each.lower() for each in _WORD.findall(parsed.partition("TEXT:")[2])]
        code = {word: number for number, word in pairs}
        faults = [*self._code_faults(pairs), *self._message_faults([code[each] for each in words if each in code])]
        hidden = sum(each in code for each in words)
        room = (len(words) - hidden) / max(1, hidden)
        if room < self.gap:
            told_room = f"There are {room:.1f} other words for each code word, not {self.gap}."
            faults.append(Fault("room", told_room, weight=min(2.0, self.gap - room)))
        wrong = sum(each.weight for each in faults)
        return Verdict(-wrong, max(0.0, 1 - wrong / (3 * len(self.numbers))), not faults, tuple(faults))

    def _code_faults(self, pairs: Sequence[tuple[int, str]]) -> list[Fault]:
        num_uses = Counter(word for _, word in pairs)
        known = {number for number, _ in pairs}
        found = [
            Fault("code", f"{number} has no code word.")
            for number in dict.fromkeys(self.numbers)
            if number not in known
        ]
        return found + [
            Fault("code", f"The word {word} stands for more than one number.")
            for word, uses in num_uses.items()
            if uses > 1
        ]

    def _message_faults(self, hidden: Sequence[int]) -> list[Fault]:
        found = list[Fault]()
        for place, number in enumerate(self.numbers):
            said = hidden[place] if place < len(hidden) else None
            if said != number:
                got = "nothing" if said is None else str(said)
                told = f"Place {place + 1} of the message should be {number}, but the text hides {got} there."
                found.append(Fault("order", told, f"place {place}"))
        extra = len(hidden) - len(self.numbers)
        if extra > 0:
            found.append(Fault("extra", f"The text hides {extra} numbers too many.", weight=float(extra)))
        return found


def from_text(id: str, text: str) -> Poem:
    """Reads a message from the words of its task.

    Raises:
        SetupError: They are none of this task.
    """
    message, gap = _MESSAGE.search(text), _GAP.search(text)
    if message is None or gap is None:
        raise errors.SetupError(f"{id} is no message to hide that can be read: {text!r:.80}.")
    numbers = tuple(int(each) for each in message[1].split(",") if each.strip())
    return Poem(id, text, numbers, int(gap[1]))


def make(id: str, size: int, rng: Random) -> Mapping[str, Any]:
    """Makes a message of some numbers, a few of them more than once."""
    numbers = [10 * rng.randint(1, max(2, size // 2)) for _ in range(size)]
    theme = rng.choice(("the sea in winter", "a town at night", "an old garden"))
    text = (
        f"Write a short text about {theme} that hides a message. Hide these numbers, in this order: "
        f"{', '.join(str(each) for each in numbers)}. Choose a code word for every number. Between two code words "
        f"there must stand on average at least {rng.randint(3, 5)} other words."
    )
    return {"id": id, "task": "stegpoet", "prompt_0shot": text}
