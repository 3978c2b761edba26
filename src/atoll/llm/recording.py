"""Replies on file: what a model said once can be heard again, without the model.

One JSON object per line: the place (step, call) in the run or null, the digest of the prompt, the prompt, the reply.
The prompts are there for people; a replay needs their digests only.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

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
        self._append(f"{to_line(place, prompt, reply)}\n".encode())
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

    def __init__(self, source: str | Path | Iterable[str], *, where: str = "", by_place: bool = False) -> None:
        """Reads the recording.

        Args:
            source: A file, or its lines from elsewhere.
            where: What it is called in messages; by default the file.
            by_place: A prompt whose words have changed since still gets the reply of its place, if that has one.

        Raises:
            SetupError: There is no such file, or it is no recording.
        """
        self._where, self._lock = where or str(source), Lock()
        self._placed: dict[tuple[int, str, str], Reply] = {}
        self._loose: dict[Place, Reply] = {}
        self._queues: defaultdict[str, deque[Reply]] = defaultdict(deque)
        for place, digest, reply in self._entries(_lines(source) if isinstance(source, str | Path) else source):
            self._queues[digest].append(reply)
            if place is not None:
                self._placed[(*place, digest)] = reply  # the last one: what a step that ran again went on with
                if by_place:
                    self._loose[place] = reply

    def __call__(self, prompt: str) -> Reply:
        """Returns what was recorded.

        Raises:
            NotFound: There is no reply to this prompt, or none left.
        """
        digest, place = candidate.digest(prompt), _place()
        if place is not None and (*place, digest) in self._placed:
            return self._placed[(*place, digest)]
        if place in self._loose:
            return self._loose[place]
        with self._lock:
            if digest not in self._queues:
                raise errors.NotFound(
                    f"{self._where} has no reply to the prompt {prompt!r:.80} ({digest[:12]}): record one."
                )
            if not self._queues[digest]:
                raise errors.NotFound(
                    f"{self._where} has no further reply to the prompt {prompt!r:.80} ({digest[:12]}): record more."
                )
            return self._queues[digest].popleft()

    def _entries(self, lines: Iterable[str]) -> Iterator[tuple[Place | None, str, Reply]]:
        for number, line in enumerate(lines, 1):
            try:
                found = json.loads(line)
                place = None if found["place"] is None else (int(found["place"][0]), str(found["place"][1]))
                yield place, str(found["digest"]), Reply(found["text"], found["model"], Cost(*found["usage"]))
            except (ValueError, TypeError, LookupError, RecursionError):
                raise errors.SetupError(
                    f"{self._where} is no recording of replies, line {number} is none: "
                    "give a file that a Recorder or 'atoll export --replay' wrote."
                ) from None


def to_line(place: Place | None, prompt: str, reply: Reply) -> str:
    """Returns a reply as a line of a recording, without its end."""
    amounts = reply.cost.to_data()
    data = {"text": reply.text, "model": reply.model, "usage": amounts}
    return json.dumps({"place": place, "digest": candidate.digest(prompt), "prompt": prompt, **data})


def _lines(path: str | Path) -> Iterator[str]:
    try:
        whole, _, _ = Path(path).read_text(encoding="utf-8").rpartition("\n")
    except OSError as error:
        raise errors.SetupError(f"Replies cannot be read from {path}: {error.strerror}.") from error
    except ValueError:
        raise errors.SetupError(
            f"{path} is no recording of replies, it is no text: give a file that a Recorder wrote."
        ) from None
    return iter(whole.split("\n") if whole else ())


def _place() -> Place | None:
    ledger = Ledger.current.get()
    return None if ledger is None else ledger.place
