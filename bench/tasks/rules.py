"""Prompt task with a known optimum, its evaluator and a scripted LLM, shared by all systems.

A prompt is a list of rules. An instance needs three of 24 rules and is harmed by one of 8. The best prompt has all
needed rules and no harmful one, and scores 1 on every instance. Uses only the standard library, so that it runs in any
environment.
"""

import random
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

RULES = [f"rule-{number}" for number in range(24)]
TRAPS = [f"trap-{number}" for number in range(8)]
START = "Follow these rules.\n- rule-0"


class Instance(NamedTuple):
    """Needed rules and harmful rule of an instance."""

    needs: Sequence[str]
    trap: str


class Sets(NamedTuple):
    """Three parts of one data set."""

    train: Sequence[Instance]
    validation: Sequence[Instance]
    test: Sequence[Instance]


def sets(seed: int) -> Sets:
    """Draws the instances of a seed."""
    rng = random.Random(f"{seed}/instances")
    drawn = [Instance(tuple(rng.sample(RULES, 3)), rng.choice(TRAPS)) for _ in range(100)]
    return Sets(drawn[:30], drawn[30:50], drawn[50:])


class Bench:
    """Evaluator and LLM with their own clocks, so that their time is not counted for the engine."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"{seed}/model")
        self.calls = self.replies = 0
        self.seconds = 0.0

    def evaluate(self, text: str, instance: Instance) -> tuple[float, str]:
        """Returns the share of needed rules, less a half for a harmful one, and the errors."""
        since = time.thread_time()
        self.calls += 1
        rules = set(re.findall(r"^- (\S+)", text, re.M))
        missing = [rule for rule in instance.needs if rule not in rules]
        score = max(0.0, (3 - len(missing)) / 3 - 0.5 * (instance.trap in rules))
        message = [f"MISSING {missing[0]}"] if missing else []
        message += [f"HARMFUL {instance.trap}"] if instance.trap in rules else []
        self.seconds += time.thread_time() - since
        return score, "; ".join(message) or "all is well"

    def reply(self, prompt: str) -> str:
        """Improves the prompt by the feedback in half of the cases; otherwise makes an error or forgets a rule."""
        since = time.thread_time()
        self.replies += 1
        rng, prompt = self._rng, prompt[max(0, prompt.find(" to improve:")) :]  # Atoll shows other blocks before it
        block = re.search(r"^(`{3,})\w*\n(.*?)^\1", prompt, re.M | re.S)
        rules = re.findall(r"^- (\S+)", block[2] if block else "", re.M)
        rest = prompt[block.end() :] if block else prompt
        for kind, rule in sorted(set(re.findall(r"(MISSING|HARMFUL) ([\w-]+)", rest))):
            rules = self._changed(rules, kind, rule)
        if rng.random() < 0.15:
            rules.append(rng.choice(TRAPS))
        if rules and rng.random() < 0.15:
            rules.remove(rng.choice(rules))
        text = "\n".join(["Follow these rules.", *(f"- {rule}" for rule in dict.fromkeys(rules))])
        self.seconds += time.thread_time() - since
        return f"The rules do not cover what the feedback names, so I change them.\n\n```\n{text}\n```"

    def _changed(self, rules: list[str], kind: str, rule: str) -> list[str]:
        if self._rng.random() < 0.5:
            return rules
        return [*rules, rule] if kind == "MISSING" else [item for item in rules if item != rule]


class Climb:
    """Task without work: each response is better than all before it, so that every child is kept."""

    def __init__(self) -> None:
        self.calls = self.replies = 0
        self.seconds = 0.0

    def evaluate(self, text: str, instance: int) -> tuple[float, str]:
        self.calls += 1
        return float(text.split("=")[1].split()[0]), "higher"

    def reply(self, prompt: str) -> str:
        self.replies += 1
        return f"```\nvalue={self.replies / 1000:.4f} {self.replies}\n```"
