"""Runs the LLM server as a process, for tests whose client is killed.

    python -m atoll.testing.server --port 0 --reply-file reply.txt --log requests.log --seconds 60

Prints its address, then serves until its standard input closes, so it ends with its parent process.
"""

import argparse
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from atoll import candidate
from atoll.testing.server.server import Fault, ModelServer


def main(arguments: Sequence[str] | None = None) -> None:
    options = _make_parser().parse_args(arguments)
    text = options.reply_file.read_text(encoding="utf-8") if options.reply_file else "An answer."
    fault = Fault(delay_seconds=options.delay_seconds)
    with ModelServer(_make_answer(text, options.log), faults=fault, port=options.port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        _wait(options.seconds)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m atoll.testing.server", description="Serve LLM responses for tests."
    )
    parser.add_argument("--port", type=int, default=0, help="Port; 0 picks a free one.")
    parser.add_argument("--reply-file", type=Path, help="File with the text of every response.")
    parser.add_argument("--log", type=Path, help="Append one line per request: number and SHA-256 of the prompt.")
    parser.add_argument("--delay-seconds", type=float, default=0.0, help="Delay of each response in seconds.")
    parser.add_argument("--seconds", type=float, help="Stop after this time.")
    return parser


def _make_answer(text: str, log: Path | None) -> Callable[[str, int], str]:
    """Returns a function that logs each request before its response is sent."""
    if log is None:
        return lambda prompt, index: text
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def answer(prompt: str, index: int) -> str:
        os.write(file, f"{index} {candidate.content_hash(prompt)}\n".encode())
        return text

    return answer


def _wait(seconds: float | None) -> None:
    """Returns when standard input ends or the time is over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is None or time.monotonic() < deadline:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if select.select([sys.stdin], [], [], remaining)[0] and not os.read(sys.stdin.fileno(), 4096):
            return


if __name__ == "__main__":
    main()
