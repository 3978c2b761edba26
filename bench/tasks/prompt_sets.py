"""Data sets for prompts and a real LLM: formula questions, a classification and an extraction.

The classification and the extraction are generated here. Their conventions are not in the initial prompts: an optimizer
must learn them from feedback. Uses only the standard library, so that it runs in any environment.
"""

import json
import random
import re
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("formula", "classification", "extraction")
WORKERS = 8  # evaluator calls in parallel, of every system
SIZES = (30, 30, 60)  # instances for training, validation and test
_TIMEOUT_SECONDS = 300.0
_MAX_TOKENS = {"formula": 400, "classification": 60, "extraction": 120}
STARTS = {
    "formula": "Answer the question with a number.",
    "classification": "Read the message of a customer and name the team that handles it.",
    "extraction": "Extract customer, date and amount from the message.",
}


class Sets(NamedTuple):
    """Three parts of one data set; each instance has `input` and `answer`."""

    train: Sequence[Mapping[str, str]]
    validation: Sequence[Mapping[str, str]]
    test: Sequence[Mapping[str, str]]


def sets(name: str, seed: int, formulas: Path | None = None) -> Sets:
    """Returns the parts of a data set; the seed chooses the instances for training and validation."""
    rng = random.Random(f"{seed}/{name}")
    if name == "formula":
        if formulas is None:
            raise SystemExit("The formula questions are not part of Atoll: pass --formulas DIR.")
        learning, test = _read_formulas(formulas / "train.jsonl"), _read_formulas(formulas / "test_100.jsonl")
    else:
        instances = _make_tickets(240) if name == "classification" else _make_orders(240)
        learning, test = instances[:160], instances[160:]
    chosen = rng.sample(learning, SIZES[0] + SIZES[1])
    return Sets(chosen[: SIZES[0]], chosen[SIZES[0] :], test[: SIZES[2]])


def _read_formulas(path: Path) -> list[Mapping[str, str]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{"input": row["context"], "answer": row["target"]} for row in rows]


_TICKETS = {
    "LEDGER": (
        "I was charged twice for order {number}.",
        "My invoice {number} shows the wrong VAT number.",
        "Where do I find the receipt for payment {number}?",
        "The discount code was not applied to order {number}.",
    ),
    "WHEELS": (
        "Parcel {number} has not arrived yet.",
        "I want my money back: order {number} came three weeks late.",
        "The courier left package {number} in the rain and it is wet.",
        "Please change the delivery address of order {number}.",
    ),
    "KEYS": (
        "I cannot log in, the site says error {number}.",
        "Someone changed the password of my account {number}.",
        "Please delete my account {number} and all my data.",
        "The invoice page asks me to log in again and again, session {number}.",
    ),
    "WORKSHOP": (
        "The blender of order {number} makes a burning smell.",
        "Part {number} of the shelf does not fit.",
        "Which battery does model {number} need?",
        "The package of order {number} arrived in time, but the lamp inside is broken.",
    ),
}
_OPENINGS = ("Hello, ", "", "Good morning. ", "Hi team! ", "Second try: ", "To whom it may concern: ")
_CLOSINGS = ("", " Thanks.", " Please hurry.", " I am a customer since 2019.", " This is urgent!", " Regards, Sam")


def _make_tickets(count: int) -> list[Mapping[str, str]]:
    """Makes messages of customers. The team is named by the cause, not by the words refund or invoice."""
    rng = random.Random("tickets")
    tickets = list[Mapping[str, str]]()
    for index in range(count):
        team = list(_TICKETS)[index % len(_TICKETS)]
        text = rng.choice(_TICKETS[team]).format(number=rng.randint(1000, 9999))
        tickets.append({"input": f"{rng.choice(_OPENINGS)}{text}{rng.choice(_CLOSINGS)}", "answer": team})
    rng.shuffle(tickets)
    return tickets


_PEOPLE = ("Ada Byron", "Li Wei", "Omar Haddad", "Eva Novak", "Joao Silva", "Mia Olsen", "Ken Sato", "Ana Ruiz")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
_ORDERS = (
    "{person} ordered on {month} {day}, {year} and paid {amount} euros.",
    "On {day} {month} {year} we got {amount} EUR from {person}.",
    "Payment of EUR {amount} received ({day}.{number}.{year}), customer: {person}.",
    "{person} sent {amount} euros; the booking date is {year}/{number:02d}/{day:02d}.",
)


def _make_orders(count: int) -> list[Mapping[str, str]]:
    """Makes notes on payments. The answer is SURNAME|YYYYMMDD|cents, which the initial prompt does not say."""
    rng = random.Random("orders")
    orders = list[Mapping[str, str]]()
    for _ in range(count):
        person, month, day, year = rng.choice(_PEOPLE), rng.randrange(10), rng.randint(1, 28), rng.randint(2019, 2025)
        cents = rng.randint(500, 99_999)
        values = {"person": person, "month": _MONTHS[month], "number": month + 1, "day": day, "year": year}
        text = rng.choice(_ORDERS).format(**values, amount=f"{cents / 100:.2f}")
        answer = f"{person.split()[-1].upper()}|{year}{month + 1:02d}{day:02d}|{cents}"
        orders.append({"input": text, "answer": answer})
    return orders


def score(name: str, output: str, answer: str) -> float:
    """Returns the score of an output: the right number, the team alone, or the share of right fields."""
    if name == "formula":
        numbers = re.findall(r"-?\d+(?:\.\d+)?", output.replace(",", ""))
        return float(bool(numbers) and abs(float(numbers[-1]) - float(answer)) < 0.006)
    text = output.strip().strip("`'\". ")
    if name == "classification":
        return float(text == answer)
    fields, expected = [field.strip() for field in text.split("|")], answer.split("|")
    if len(fields) != len(expected):
        return 0.0
    return sum(field == right for field, right in zip(fields, expected, strict=True)) / len(expected)


class Task:
    """Evaluator and reflecting LLM of a data set, over an OpenAI-compatible endpoint. Counts its calls.

    Args:
        name: The data set.
        model: `openai:NAME@URL`.
        max_replies: Most reflections; `is_over` is true after them.
    """

    def __init__(self, name: str, model: str, max_replies: int | None = None) -> None:
        match = re.fullmatch(r"openai:(.+)@(https?://.+)", model)
        if match is None:
            raise SystemExit(f"--llm is {model!r}: write openai:NAME@http://HOST:PORT/v1.")
        self._name, self._model, self._url = name, match[1], match[2].rstrip("/")
        self._max_replies, self._lock = max_replies, threading.Lock()
        self.calls = self.replies = 0

    @property
    def is_over(self) -> bool:
        return self._max_replies is not None and self.replies >= self._max_replies

    def evaluate(self, text: str, instance: Mapping[str, str]) -> tuple[float, str]:
        """Returns the score of a prompt on an instance, and the output beside the expected one."""
        with self._lock:
            self.calls += 1
        messages = [{"role": "system", "content": text}, {"role": "user", "content": instance["input"]}]
        output = self._ask(messages, 0.0, _MAX_TOKENS[self._name])
        value = score(self._name, output, instance["answer"])
        if value == 1.0:
            return value, f"The output {output.strip()[-200:]!r} is right."
        return value, f"The output was {output.strip()[-400:]!r}, but {instance['answer']!r} is right."

    def reply(self, prompt: Any) -> str:
        """Returns the response of the reflecting LLM."""
        with self._lock:
            self.replies += 1
        messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": str(prompt)}]
        return self._ask(messages, 0.7, 1200)

    def _ask(self, messages: Any, temperature: float, max_tokens: int) -> str:
        body = {"model": self._model, "messages": messages, "temperature": temperature, "max_tokens": max_tokens}
        headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
        request = urllib.request.Request(f"{self._url}/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            content: str = json.load(response)["choices"][0]["message"]["content"] or ""
        return content
