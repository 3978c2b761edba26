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
from atoll.journal import CallCache
from atoll.llm.base import LLM, Response

type CallPosition = tuple[int, str]


class RecordingLLM:
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

    def __call__(self, prompt: str) -> Response:
        position = _get_position()  # before the model is asked: a durable one moves on to the next
        response = self._llm(prompt)
        self._append(f"{format_line(position, prompt, response)}\n".encode())
        return response

    def _append(self, line: bytes) -> None:
        # Opened each time (20 us), so that there is nothing to close and a forked child does the same.
        with self._lock, self._path.open("ab", buffering=0) as file:
            while line:
                line = line[file.write(line) :]


class RecordedLLM:
    """Answers from a file of a `Recorder`, the same however many workers ask.

    Who asks at a recorded place with the recorded prompt gets that reply, as often as he asks. Who asks elsewhere
    gets the replies to that prompt in recorded order, each once.
    """

    def __init__(self, source: str | Path | Iterable[str], *, name: str = "", match_by_position: bool = False) -> None:
        """Reads the recording.

        Args:
            source: A file, or its lines from elsewhere.
            where: What it is called in messages; by default the file.
            by_place: A prompt whose words have changed since still gets the reply of its place, if that has one.

        Raises:
            SetupError: There is no such file, or it is no recording.
        """
        self._name, self._lock = name or str(source), Lock()
        self._by_call: dict[tuple[int, str, str], Response] = {}
        self._by_position: dict[CallPosition, Response] = {}
        self._by_prompt: defaultdict[str, deque[Response]] = defaultdict(deque)
        for position, digest, response in self._parse_lines(
            _read_lines(source) if isinstance(source, str | Path) else source
        ):
            self._by_prompt[digest].append(response)
            if position is not None:
                self._by_call[(*position, digest)] = response  # the last one: what a step that ran again went on with
                if match_by_position:
                    self._by_position[position] = response

    def __call__(self, prompt: str) -> Response:
        """Returns what was recorded.

        Raises:
            NotFound: There is no reply to this prompt, or none left.
        """
        digest, position = candidate.content_hash(prompt), _get_position()
        if position is not None and (*position, digest) in self._by_call:
            return self._by_call[(*position, digest)]
        if position in self._by_position:
            return self._by_position[position]
        with self._lock:
            if digest not in self._by_prompt:
                raise errors.NotFound(
                    f"{self._name} has no reply to the prompt {prompt!r:.80} ({digest[:12]}): record one."
                )
            if not self._by_prompt[digest]:
                raise errors.NotFound(
                    f"{self._name} has no further reply to the prompt {prompt!r:.80} ({digest[:12]}): record more."
                )
            return self._by_prompt[digest].popleft()

    def _parse_lines(self, lines: Iterable[str]) -> Iterator[tuple[CallPosition | None, str, Response]]:
        for line_number, line in enumerate(lines, 1):
            try:
                data = json.loads(line)
                position = None if data["place"] is None else (int(data["place"][0]), str(data["place"][1]))
                yield position, str(data["digest"]), Response(data["text"], data["model"], Cost(*data["usage"]))
            except (ValueError, TypeError, LookupError, RecursionError):
                raise errors.SetupError(
                    f"{self._name} is no recording of replies, line {line_number} is none: "
                    "give a file that a Recorder or 'atoll export --replay' wrote."
                ) from None


def format_line(position: CallPosition | None, prompt: str, response: Response) -> str:
    """Returns a reply as a line of a recording, without its end."""
    amounts = response.cost.to_data()
    data = {"text": response.text, "model": response.model, "usage": amounts}
    return json.dumps({"place": position, "digest": candidate.content_hash(prompt), "prompt": prompt, **data})


def _read_lines(path: str | Path) -> Iterator[str]:
    try:
        text, _, _ = Path(path).read_text(encoding="utf-8").rpartition("\n")
    except OSError as error:
        raise errors.SetupError(f"Replies cannot be read from {path}: {error.strerror}.") from error
    except ValueError:
        raise errors.SetupError(
            f"{path} is no recording of replies, it is no text: give a file that a Recorder wrote."
        ) from None
    return iter(text.split("\n") if text else ())


def _get_position() -> CallPosition | None:
    call_cache = CallCache.current.get()
    return None if call_cache is None else call_cache.position
