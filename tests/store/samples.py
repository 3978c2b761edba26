"""Sample records, as the kernel writes them, and a small run."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll.candidate import EMPTY
from atoll.journal import Record


def candidate(
    id: str, content: str | None = None, parents: Sequence[str] = ("0.0",), island: int = 0
) -> dict[str, Any]:
    step = int(id.partition(".")[0])
    return {"id": id, "content": content or f"body of {id}", "parents": list(parents), "island": island, "step": step}


def founded(score: float = 1.0, content: str | None = None) -> Record:
    return Record("founded", 0, -1, {**candidate("0.0", content, ()), "evaluation": {"score": score}})


def judged(id: str, score: float | None, **rest: Any) -> Record:
    data = candidate(id, **rest)
    evaluation = {"score": score} if score is not None else {"score": None, "failure": "it broke"}
    data |= {"label": id.partition(".")[2], "evaluation": {**evaluation, "cost": [0.25, 0, 0, 0.0]}, "paid": True}
    return Record("judged", data["step"], data["island"], data)


def child(
    id: str, verdict: str = "accept", version: str | None = None, unjudged: Mapping[str, Any] = EMPTY
) -> dict[str, Any]:
    return {"id": id, **unjudged, "decision": [verdict, f"{verdict}ed for a reason", "a gate", version]}


def applied(step: int, *children: dict[str, Any], island: int = 0) -> Record:
    return Record("applied", step, island, {"children": list(children), "evaluations": 1, "calls": 0})


def small_run() -> list[Record]:
    """Returns the initial candidate and iterations 1 (a child), 2 (two children, eleven trials), 10 (no evaluation)."""
    return [
        founded(),
        judged("1.0", 2.0),
        applied(1, child("1.0")),
        *(judged(f"2.d{n}", 100.0 + n, parents=["1.0"], island=1) for n in range(11)),
        judged("2.0", 5.0, parents=["1.0"], island=1),
        judged("2.1", None, parents=["1.0"], island=1),
        applied(2, child("2.0"), child("2.1", "reject"), island=1),
        applied(10, child("10.0", "reject", unjudged=candidate("10.0", parents=["2.0"]))),
    ]
