"""Replies on file: what a model said once can be heard again, without the model.

One JSON object per line: the place (step, call) in the run or null, the digest of the prompt, the prompt, the reply.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from atoll import candidate, errors
from atoll.evaluation import Cost
from atoll.journal import Ledger
from atoll.llm.llm import LLM, Reply

type Place = tuple[int, str]


class Recorder:
    """A model whose replies are appended to a file before anybody reads them."""

    def __init__(self, llm: LLM, path: str | Path) -> None:
        """Makes the file if there is none; a line that a killed process left half written is cut off.

        Raises:
            SetupError: The file cannot be written.
        """
        self._llm, self._path, self._lock = llm, Path(path), Lock()
        try:
            with self._path.open("a+b") as file:
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        except OSError as error:
            raise errors.SetupError(f"Replies cannot be recorded in {path}: {error.strerror}.") from error

    def __call__(self, prompt: str) -> Reply:
        place = _place()  # before the model is asked: a durable one moves on to the next
        reply = self._llm(prompt)
        line = {"place": place, "digest": candidate.digest(prompt), "prompt": prompt, **_to_data(reply)}
        self._append(json.dumps(line).encode() + b"\n")
        return reply

    def _append(self, line: bytes) -> None:
        # Opened each time (20 us), so that there is nothing to close and a forked child does the same.
        with self._lock, self._path.open("ab", buffering=0) as file:
            while line:
                line = line[file.write(line) :]


class Replay:
    """Answers from a file of a `Recorder`, the same however many workers ask.

    Who asks at a recorded place with the recorded prompt gets that reply, as often as he asks. Who asks elsewhere
    gets the replies to that prompt in recorded order, each once.
    """

    def __init__(self, path: str | Path) -> None:
        """Reads the file.

        Raises:
            SetupError: There is no such file, or it is no recording.
        """
        self._path, self._lock = Path(path), Lock()
        self._placed: dict[tuple[int, str, str], Reply] = {}
        self._queues: defaultdict[str, deque[Reply]] = defaultdict(deque)
        for place, digest, reply in self._entries():
            self._queues[digest].append(reply)
            if place is not None:
                self._placed[(*place, digest)] = reply  # the last one: what a step that ran again went on with

    def __call__(self, prompt: str) -> Reply:
        """Returns what was recorded.

        Raises:
            NotFound: There is no reply to this prompt, or none left.
        """
        digest, place = candidate.digest(prompt), _place()
        if place is not None and (*place, digest) in self._placed:
            return self._placed[(*place, digest)]
        with self._lock:
            if digest not in self._queues:
                raise errors.NotFound(
                    f"{self._path} has no reply to the prompt {prompt!r:.80} ({digest[:12]}): record one."
                )
            if not self._queues[digest]:
                raise errors.NotFound(
                    f"{self._path} has no further reply to the prompt {prompt!r:.80} ({digest[:12]}): record more."
                )
            return self._queues[digest].popleft()

    def _entries(self) -> Iterator[tuple[Place | None, str, Reply]]:
        number = 0
        try:
            whole, _, _ = self._path.read_text(encoding="utf-8").rpartition("\n")
            for line in whole.split("\n") if whole else ():
                number += 1
                found = json.loads(line)
                place = None if found["place"] is None else (int(found["place"][0]), str(found["place"][1]))
                yield place, str(found["digest"]), Reply(found["text"], found["model"], Cost(*found["usage"]))
        except OSError as error:
            raise errors.SetupError(f"Replies cannot be read from {self._path}: {error.strerror}.") from error
        except (ValueError, TypeError, LookupError):
            raise errors.SetupError(
                f"{self._path} is no recording of replies, line {number} is none: give a file that a Recorder wrote."
            ) from None


def _place() -> Place | None:
    ledger = Ledger.current.get()
    return None if ledger is None else ledger.place


def _to_data(reply: Reply) -> Mapping[str, Any]:
    return {"text": reply.text, "model": reply.model, "usage": reply.cost.to_data()}
