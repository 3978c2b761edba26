"""Memory of a run for its prompts: earlier changes of each program, changes that helped, and repeated errors."""

import math
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import function
from atoll.candidate import JSON

MAX_ERROR_CHARS = 300
_MAX_ATTEMPTS, _MAX_STORED_ATTEMPTS, _MAX_GAINS = 6, 12, 3
_MAX_IDEA_CHARS, _MAX_WHY_CHARS, _MAX_ERROR_KEY_CHARS = 160, 200, 120
_PROGRAM_FRAME = re.compile(r'File "[^"\n]*program\.\w+", line (\d+)[^\n]*\n[ \t]*(?![ \t]|File )([^\n]*)')


class AttemptMemory:
    """Attempts by parent, the largest gains, and the most frequent errors."""

    def __init__(self) -> None:
        self._attempts: dict[str, deque[dict[str, JSON]]] = {}
        self._gains = list[dict[str, JSON]]()
        self._errors = Counter[str]()

    def add_unusable(self, parent_id: str, failure: str) -> None:
        """Adds a response without a program; an LLM that did not respond teaches nothing."""
        if "LLMError" in failure:
            return
        reason = failure.removeprefix("the mutator raised ").removeprefix("UnusableResponse: ")
        self._add(parent_id, {"outcome": "unusable", "reason": " ".join(reason.split())[:MAX_ERROR_CHARS]})

    def add_child(
        self, parent: function.Function, fn: function.Function, error: str, *, best_gain: float | None = None
    ) -> None:
        """Adds an evaluated or rejected child.

        Args:
            parent: The program that was changed.
            fn: The child.
            error: Reason for its failure; empty if it has a valid score.
            best_gain: Gain of a new best program over the one before; None if it is not the best.
        """
        meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
        score, parent_score = (program.score() if program.evaluation else None for program in (fn, parent))
        attempt: dict[str, JSON] = {"id": fn.candidate.id if fn.candidate else ""}
        attempt["idea"] = str(meta.get("idea") or "")[:_MAX_IDEA_CHARS]
        attempt |= {"why": str(meta["why"])[:_MAX_WHY_CHARS]} if meta.get("why") else {}
        attempt |= {"change": str(meta.get("change") or "")[:MAX_ERROR_CHARS]} if not attempt["idea"] else {}
        if error:
            reason = summarize_error(error)[:MAX_ERROR_CHARS]
            attempt |= {"outcome": "failed" if fn.evaluation else "rejected", "reason": reason}
            self._errors[reason[:_MAX_ERROR_KEY_CHARS]] += bool(fn.evaluation)
        else:
            difference = score - parent_score if score is not None and parent_score is not None else None
            attempt |= {"outcome": _classify(difference), "score": score, "difference": difference}
        if best_gain is not None and (attempt["idea"] or attempt.get("change")):
            self._gains.append({**attempt, "difference": best_gain})
            self._gains = sorted(self._gains, key=lambda gain: -_to_number(gain["difference"]))[:_MAX_GAINS]
        self._add(str(parent.candidate.id if parent.candidate else ""), attempt)

    def _add(self, parent_id: str, attempt: dict[str, JSON]) -> None:
        """Adds an attempt; of equal failures only the last one stays."""
        attempts = self._attempts.setdefault(parent_id, deque(maxlen=_MAX_STORED_ATTEMPTS))
        for old in [old for old in attempts if old.get("reason") and old.get("reason") == attempt.get("reason")]:
            attempts.remove(old)
        attempts.append(attempt)

    def choose_attempts(self, parent_id: str) -> Sequence[JSON]:
        """Returns the best attempt from a program, the last three and other failures, newest first."""
        attempts = list(self._attempts.get(parent_id, ()))
        scored = [attempt for attempt in attempts if attempt.get("score") is not None]
        best = max(scored, key=lambda attempt: _to_number(attempt["score"]), default=None)
        chosen = [old for old in attempts[:-3] if old is best or old["outcome"] == "failed"] + attempts[-3:]
        return chosen[::-1][:_MAX_ATTEMPTS]

    def list_notes(self) -> Sequence[JSON]:
        """Returns the changes that helped most, and errors that occurred more than once."""
        notes: list[JSON] = [
            {"note": "helped", "idea": gain["idea"] or gain.get("change", ""), "difference": gain["difference"]}
            for gain in self._gains
        ]
        for reason, count in self._errors.most_common(3):
            notes += [{"note": "failed", "reason": reason, "count": count}] if count > 1 else []
        return notes


def summarize_error(error: str) -> str:
    """Returns the last line of an error, and the line of the program that raised it."""
    lines = [line.strip() for line in error.splitlines() if line.strip().strip("^~ ")]
    if len(lines) < 2:
        return " ".join(error.split())
    frames = _PROGRAM_FRAME.findall(error)
    place = f" (line {frames[-1][0]}: {frames[-1][1].strip()})" if frames else ""
    return " ".join(f"{lines[-1]}{place}".split())


def _classify(difference: float | None) -> str:
    if difference is None:
        return "scored"
    return "better" if difference > 0 else "worse" if difference < 0 else "equal"


def _to_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else -math.inf
