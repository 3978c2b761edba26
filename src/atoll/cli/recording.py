"""What `run` writes beside the store: every turn of a life as JSON lines, and a report of the lives."""

import json
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors

LIVING = "survival"  # the system whose steps are lives
EpisodesOption = Annotated[
    int | None, typer.Option("--episodes", min=0, metavar="N", help="Lives, in a task that has them.")
]
SaveRunOption = Annotated[
    Path | None, typer.Option("--save-run", metavar="DIR", help="Write every turn of a life there, as JSON lines.")
]
SaveReportOption = Annotated[
    Path | None, typer.Option("--save-report", metavar="FILE", help="Write a report of all lives there, as JSON.")
]
TickDelayOption = Annotated[
    float | None, typer.Option("--tick-delay", min=0, metavar="SECONDS", help="Wait so long after each turn of a life.")
]
LingerOption = Annotated[
    float, typer.Option("--linger", min=0, metavar="SECONDS", help="Stay so long after the end, for whoever watches.")
]
_FOR_GOOD = 1e9  # seconds; to sleep much longer is refused


def delayed(seconds: float | None) -> list[dict[str, Any]]:
    """Returns what a delay changes in the configuration."""
    return [] if seconds is None else [{"survival": {"tick_delay": seconds}}]


def check_lives(system: str, episodes: int | None, iterations: int | None) -> None:
    """Refuses a number of lives where there are none.

    Raises:
        SetupError: The system has no lives, or the number was said twice.
    """
    if episodes is not None and system != LIVING:
        raise errors.SetupError(f"--episodes counts lives, and {system} has none: say --iterations {episodes}.")
    if episodes is not None and iterations is not None:
        raise errors.SetupError("--episodes and --iterations say the same of lives: leave one of them out.")


def stay(seconds: float) -> None:
    """Waits, until somebody interrupts."""
    with suppress(KeyboardInterrupt):
        time.sleep(min(seconds, _FOR_GOOD))


class Recorder:
    """Hears the turns and lives of a session and writes them down; without a place to write it does nothing."""

    def __init__(self, turns: Path | None, report: Path | None) -> None:
        self._turns, self._report = turns, report
        self._lives: list[Any] = []
        self._began = f"{datetime.now():%Y%m%d-%H%M%S}"

    def check(self, system: str) -> None:
        """Makes the folder for turns and looks for that of the report, before anything runs.

        Raises:
            SetupError: The system has no lives, a folder cannot be made, or the report's is not there.
        """
        if self._turns is None and self._report is None:
            return
        if system != LIVING:
            raise errors.SetupError(f"--save-run and --save-report are for lives; {system} has none.")
        if self._report is not None and (self._report.is_dir() or not self._report.parent.is_dir()):
            why = "it is a folder" if self._report.is_dir() else f"there is no folder {self._report.parent}"
            raise errors.SetupError(f"--save-report {self._report} cannot be written: {why}.")
        try:
            if self._turns is not None:
                self._turns.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"{error.filename} cannot be made: {error.strerror}.") from error

    def listen(self, session: Any) -> None:
        """Begins to write what a session tells."""
        if self._turns is not None or self._report is not None:
            session.evolver.use_profiler(self._hear)

    def _hear(self, event: Any) -> None:
        if event.type == "on_turn" and self._turns is not None:
            data = event.payload.to_data()
            path = self._turns / f"episode-{data['episode']}-{self._began}.jsonl"
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(data, ensure_ascii=False)}\n")
        elif event.type == "on_life_ended":
            self._lives.append({name: value for name, value in event.payload.items() if name != "said"})

    def finish(self) -> None:
        """Writes the report."""
        if self._report is None:
            return
        ticks, rewards = ([life[name] for life in self._lives] for name in ("ticks", "reward"))
        count = max(1, len(self._lives))
        means = {"mean_ticks": sum(ticks) / count, "mean_reward": sum(rewards) / count}
        data = {"episodes": len(self._lives), **means, "lives": self._lives}
        self._report.write_text(f"{json.dumps(data, indent=1)}\n", encoding="utf-8")
