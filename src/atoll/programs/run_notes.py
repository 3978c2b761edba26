"""Notes on a run by an LLM: what helped, what failed, and methods that the run has not tried.

A call for notes is an iteration of its own: it is in the journal, counts in the budget, and is applied like any other.
Its child is a copy of the best program with the notes in its meta. The prefilter rejects the child, so that nothing is
evaluated.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from atoll import function, llm, mutation
from atoll.candidate import JSON
from atoll.llm import ensemble
from atoll.programs.population.novelty import NOTES_KEY
from atoll.programs.prompt import sections
from atoll.programs.prompt.templates import Templates

NOTES_MODE = "notes"  # operator and mutator
RECORDS_KEY, TRIED_KEY = "records", "tried_directions"
type NotesSource = Literal["auto", "llm", "built"]

_PERIOD, _LONG_PERIOD = 20, 25  # evaluated programs between two calls for notes, also in a long run
_LONG_BUDGET = 500  # LLM calls of a long run
_MIN_BUDGET, _MIN_CALLS_LEFT = 60, 10  # LLM calls: of a run with notes, and left after a call for notes
_MIN_VALID_SHARE = 0.8  # valid programs per call of an LLM whose notes are worth a call
_MAX_HELPED, _MAX_FAILED, _MAX_DIRECTIONS = 3, 3, 5
_MAX_LINE_CHARS = 200


class Notes(NamedTuple):
    """Notes of one call."""

    helped: Sequence[str]
    failed: Sequence[str]
    directions: Sequence[str]


class RunNotes:
    """Decides when a call for notes is due, and keeps the last notes.

    Args:
        source: `built` makes no calls, `llm` always makes them. `auto` makes them in runs of 60 calls or more whose LLM
            writes mostly valid programs. A weaker LLM gains more from one more program than from notes.
        num_calls: Budget of the run in LLM calls; None: unlimited.
    """

    def __init__(self, source: NotesSource = "auto", num_calls: int | None = None) -> None:
        is_long = num_calls is None or num_calls >= _MIN_BUDGET
        self._is_on = source == "llm" or (source == "auto" and is_long)
        self._min_valid_share = _MIN_VALID_SHARE if source == "auto" else 0.0
        self._period = _LONG_PERIOD if num_calls is not None and num_calls >= _LONG_BUDGET else _PERIOD
        self._num_evaluated = 0
        self._is_due = False
        self._notes: Notes | None = None

    @property
    def has_notes(self) -> bool:
        return self._notes is not None

    def count(self, num_evaluated: int) -> None:
        """Counts the programs that an applied iteration evaluated.

        Notes become due when the count reaches the next period. They stay due only until the next applied iteration.
        """
        periods = self._num_evaluated // self._period
        self._num_evaluated += num_evaluated
        self._is_due = self._is_on and self._num_evaluated // self._period > periods

    def start(self, valid_share: float, calls_left: float) -> bool:
        """Returns whether the next iteration asks for notes. After that they are not due any more."""
        is_due = self._is_due and calls_left > _MIN_CALLS_LEFT and valid_share >= self._min_valid_share
        self._is_due = False
        return is_due

    def learn(self, result: function.IterationResult) -> Sequence[str]:
        """Keeps the notes of an applied iteration and returns its directions. Without new notes the old ones stay."""
        for fn, _ in result.children:
            data: Any = fn.candidate.meta.get(NOTES_KEY) if fn.candidate else None
            if isinstance(data, Mapping):
                self._notes = Notes(*(tuple(map(str, data.get(name) or ())) for name in Notes._fields))
                return self._notes.directions
        return ()

    def list_rows(self) -> Sequence[JSON]:
        """Returns what helped and what failed, for the advice of a prompt."""
        rows: list[JSON] = []
        for kind, texts in zip(("helped", "failed"), self._notes or ((), ()), strict=False):
            rows += [{"note": kind, "text": text} for text in texts]
        return rows


def make_advice(
    records: Sequence[JSON], rows: Sequence[JSON], directions: Mapping[str, int], state: JSON
) -> dict[str, JSON]:
    """Returns the advice of an iteration that asks for notes.

    Args:
        records: The latest attempts.
        rows: The notes so far.
        directions: Number of tries of each method that the LLM named.
        state: State of the run.
    """
    advice: dict[str, JSON] = {
        "operator": NOTES_MODE,
        "engine": NOTES_MODE,
        ensemble.ROLE_KEY: ensemble.CHEAPEST,
        "state": state,
    }
    return advice | {RECORDS_KEY: list(records), "run_notes": list(rows), TRIED_KEY: dict(directions)}


@dataclass(frozen=True, slots=True)
class NotesMutator:
    """Asks the LLM for notes. Its child is a copy of the parent, with the notes in its meta.

    Attributes:
        model: The LLM to ask.
        description: Purpose of the program.
        language: Language of the program.
        direction: Meaning of the score.
        templates: Templates of the prompt.
        max_chars: Maximum length of the prompt; a longer one does not show the program.
    """

    model: mutation.LLMCallable
    description: str = ""
    language: str = "python"
    direction: str = "higher is better"
    templates: Templates = field(default_factory=Templates.read)
    max_chars: int = 60_000

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the copy of the parent with the notes.

        Raises:
            UnusableResponse: The response has no notes.
        """
        parent = context.parents[-1]
        response = self.model(self._build_prompt(context, parent))
        notes = parse_notes(response.text, _list_ideas(context.advice))
        if notes is None:
            raise mutation.UnusableResponse("The response has no notes on the run.")
        data: dict[str, JSON] = {name: list(texts) for name, texts in notes._asdict().items()}
        meta: dict[str, JSON] = {"engine": NOTES_MODE, "operator": NOTES_MODE, "model": response.model}
        return [function.derive_child(parent, parent.skeleton(), parents=[parent], **meta, **{NOTES_KEY: data})]

    def _build_prompt(self, context: function.ProposalContext, parent: function.Function) -> llm.ChatPrompt:
        records, tried = context.advice.get(RECORDS_KEY), context.advice.get(TRIED_KEY)
        rows = [row for row in records if isinstance(row, Mapping)] if isinstance(records, Sequence) else []
        scores = [row.get("score") for row in rows]
        better = [row for row in rows if row.get("outcome") == "better"]  # small LLMs confuse them in one list
        others = [row for row in rows if row.get("outcome") != "better"]
        format_score = sections.make_score_format([parent.score() if parent.evaluation else None, *scores])
        directions = tried.items() if isinstance(tried, Mapping) else ()
        notes = [
            *sections.format_notes(context.advice.get("run_notes"), format_score),
            *(f"- Proposed, {_describe_tries(tries)}: {sections.flatten(name, 200)}" for name, tries in directions),
        ]
        unit = {"text": "text", "json": "set of values"}.get(self.language, "program")
        values = {
            "unit": unit,
            "language": self.language,
            "direction": self.direction,
            "description": self.description.strip(),
            "score": format_score(parent.score() if parent.evaluation else None),
            "program": mutation.hide_markers(str(parent.skeleton())),
            "run_notes": "\n".join(notes),
            "better": "\n".join(sections.format_attempts(better, format_score)),
            "others": "\n".join(sections.format_attempts(others, format_score)),
        }
        system = f"You keep the notes of a search for a better {unit}. You write notes, no {unit}."
        text = self.templates.fill("search_notes", values)
        if len(text) > self.max_chars:
            text = self.templates.fill("search_notes", {**values, "program": ""})
        return llm.ChatPrompt(("system", system), ("user", f"{text}\n"), effort_shift=-1)


def _describe_tries(tries: object) -> str:
    return {0: "not tried yet", 1: "tried once"}.get(tries, f"tried {tries} times") if isinstance(tries, int) else ""


_NAMES = {"helped": "HELPED|HELPS|WORKED", "failed": "FAILED|FAILS|FAILURES?", "directions": "TRY|TRIES|NEXT|UNTRIED"}
_LINE = re.compile(  # possessive repeats: a long line of marks would take hours otherwise
    r"[\s>#*_`-]*+(?:\d++[.):]\s*+)?[*_`]*+(?:WHAT (?:HAS )?)?"
    rf"(?:{'|'.join(f'(?P<{name}>{words})' for name, words in _NAMES.items())})\b"
    r"(?: (?:LINES|CHANGES|DIRECTIONS|IDEAS))?[*_` ]*(?:\d+[*_` ]*)?(?::|-|$)[*_ ]*(?P<text>.*)",
    re.I,
)
_BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.):])\s+(?P<text>.*)")
_EMPTY = re.compile(r"(?:none|nothing|n/?a|-|\.\.\.|)[.!]?", re.I)
_EXAMPLES = (  # of notes in the prompt; small LLMs copy them, so they are ignored
    "counting each pair only once",
    "a table of the squares",
    "a larger step, because the loop then misses the end",
    "recursion, because it is too deep",
    "sort the items first",
    "process the largest items before the others",
    "split the list into two halves",
    "stop as soon as nothing changes",
    "search backwards from the end",
)


def _list_ideas(advice: Mapping[str, JSON]) -> set[str]:
    """Returns the ideas of the latest attempts and the tried directions, in the form that `parse_notes` compares."""
    records, tried = advice.get(RECORDS_KEY), advice.get(TRIED_KEY)
    rows = [row for row in records if isinstance(row, Mapping)] if isinstance(records, Sequence) else []
    directions = [name for name, tries in tried.items() if tries] if isinstance(tried, Mapping) else []
    return {_normalize(str(text)) for text in (*(row.get("idea") or "" for row in rows), *directions)}


def _normalize(text: str) -> str:
    return " ".join(text.split()).rstrip(".").lower()


def _strip_marks(text: str) -> str:
    """Returns a note without marks of emphasis around it, and without a backtick that quotes nothing."""
    text = text.strip(" *_")
    if text.startswith("`") and text.find("`", 1) == len(text) - 1:
        return text[1:-1].strip(" *_")
    return text.replace("`", "").strip(" *_") if text.count("`") % 2 else text


def parse_notes(response: str, tried: Collection[str] = ()) -> Notes | None:
    """Reads notes: lines that begin with HELPED, FAILED or TRY, or lists below such lines. Returns None without notes.

    Args:
        response: The response of the LLM.
        tried: Known ideas, which do not count as new directions.
    """
    texts: dict[str, list[str]] = {name: [] for name in Notes._fields}
    limits = dict(zip(Notes._fields, (_MAX_HELPED, _MAX_FAILED, _MAX_DIRECTIONS), strict=True))
    heading: str | None = None
    for line in mutation.clean_response(response).splitlines():
        if match := _LINE.fullmatch(line):
            heading = next(name for name in Notes._fields if match[name])
            text = match["text"]
        elif heading is not None and (bullet := _BULLET.fullmatch(line)):
            text = bullet["text"]
        else:
            heading = heading if not line.strip() else None
            continue
        if len(texts[heading]) == limits[heading]:
            continue
        text = _strip_marks(sections.shorten(text, _MAX_LINE_CHARS))
        is_known = _normalize(text) in _EXAMPLES or (heading == "directions" and _normalize(text) in tried)
        if not is_known and not _EMPTY.fullmatch(text) and text not in texts[heading]:
            texts[heading].append(text)
    notes = Notes(*(tuple(texts[name]) for name in Notes._fields))
    return notes if any(notes) else None
