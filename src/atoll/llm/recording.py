"""Recorded responses, used again without the LLM.

One JSON object per line: the position (iteration, call) in the run or null, the hash of the prompt, the prompt and the
response. Reading needs only the hashes; the prompts are for people.
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
    """LLM whose responses are appended to a file before they are used."""

    def __init__(self, llm: LLM, path: str | Path) -> None:
        """Creates the file if necessary and removes an incomplete last line.

        Raises:
            SetupError: The file cannot be written.
        """
        self._llm, self._path, self._lock = llm, Path(path), Lock()
        try:
            with self._path.open("a+b") as file:
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        except OSError as error:
            raise errors.SetupError(
                f"Responses cannot be recorded in {path}: {error.strerror}. Choose another file."
            ) from error

    def __call__(self, prompt: str) -> Response:
        position = _get_position()  # before the call: JournaledLLM advances it
        response = self._llm(prompt)
        self._append(f"{format_line(position, prompt, response)}\n".encode())
        return response

    def _append(self, line: bytes) -> None:
        # Opened each time (20 us): nothing to close, and it works in a forked child.
        with self._lock, self._path.open("ab", buffering=0) as file:
            while line:
                line = line[file.write(line) :]


class RecordedLLM:
    """Returns recorded responses, the same for any number of workers.

    A recorded prompt at its recorded position always gets its response. At other positions a prompt gets its responses
    in recorded order, each once.
    """

    def __init__(self, source: str | Path | Iterable[str], *, name: str = "", match_by_position: bool = False) -> None:
        """Reads the recording.

        Args:
            source: File, or its lines.
            name: Name in messages; default: the file.
            match_by_position: Whether a changed prompt gets the response recorded at its position.

        Raises:
            SetupError: The file does not exist or is not a recording.
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
                self._by_call[(*position, digest)] = response  # the last one: an iteration that ran again used it
                if match_by_position:
                    self._by_position[position] = response

    def __call__(self, prompt: str) -> Response:
        """Returns the recorded response.

        Raises:
            NotFound: The recording has no response to this prompt, or none left.
        """
        digest, position = candidate.content_hash(prompt), _get_position()
        if position is not None and (*position, digest) in self._by_call:
            return self._by_call[(*position, digest)]
        if position in self._by_position:
            return self._by_position[position]
        with self._lock:
            if digest not in self._by_prompt:
                raise errors.NotFound(
                    f"{self._name} has no response to the prompt {prompt!r:.80} ({digest[:12]}). Record one."
                )
            if not self._by_prompt[digest]:
                raise errors.NotFound(
                    f"{self._name} has no further response to the prompt {prompt!r:.80} ({digest[:12]}). Record more."
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
                    f"{self._name} is not a recording: line {line_number} is not a response. "
                    "Use a file written by RecordingLLM or 'atoll export --format responses'."
                ) from None


def format_line(position: CallPosition | None, prompt: str, response: Response) -> str:
    """Returns a response as a line of a recording, without the line end."""
    amounts = response.cost.to_data()
    data = {"text": response.text, "model": response.model, "usage": amounts}
    return json.dumps({"place": position, "digest": candidate.content_hash(prompt), "prompt": prompt, **data})


def _read_lines(path: str | Path) -> Iterator[str]:
    try:
        text, _, _ = Path(path).read_text(encoding="utf-8").rpartition("\n")
    except OSError as error:
        raise errors.SetupError(f"Recording {path} cannot be read: {error.strerror}. Check the path.") from error
    except ValueError:
        raise errors.SetupError(
            f"{path} is not a recording: it is not text. Use a file written by RecordingLLM."
        ) from None
    return iter(text.split("\n") if text else ())


def _get_position() -> CallPosition | None:
    call_cache = CallCache.current.get()
    return None if call_cache is None else call_cache.position
