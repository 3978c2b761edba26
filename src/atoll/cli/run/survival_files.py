"""What `run` writes beside the store: every turn of a life as JSON lines, and a report of the lives."""

import json
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors

EPISODE_SYSTEM = "survival"  # the system whose steps are lives
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
_MAX_SLEEP_SECONDS = 1e9  # seconds; to sleep much longer is refused


def make_delay_layer(seconds: float | None) -> list[dict[str, Any]]:
    """Returns what a delay changes in the configuration."""
    return [] if seconds is None else [{"survival": {"tick_delay": seconds}}]


def check_episodes(system: str, episodes: int | None, iterations: int | None) -> None:
    """Refuses a number of lives where there are none.

    Raises:
        SetupError: The system has no lives, or the number was said twice.
    """
    if episodes is not None and system != EPISODE_SYSTEM:
        raise errors.SetupError(f"--episodes counts lives, and {system} has none: say --iterations {episodes}.")
    if episodes is not None and iterations is not None:
        raise errors.SetupError("--episodes and --iterations say the same of lives: leave one of them out.")


def linger(seconds: float) -> None:
    """Waits, until somebody interrupts."""
    with suppress(KeyboardInterrupt):
        time.sleep(min(seconds, _MAX_SLEEP_SECONDS))


class SurvivalRecorder:
    """Hears the turns and lives of a session and writes them down; without a place to write it does nothing."""

    def __init__(self, ticks_folder: Path | None, report_path: Path | None) -> None:
        self._ticks_folder, self._report_path = ticks_folder, report_path
        self._episodes: list[Any] = []
        self._started_at = f"{datetime.now():%Y%m%d-%H%M%S}"

    def check(self, system: str) -> None:
        """Makes the folder for turns and looks for that of the report, before anything runs.

        Raises:
            SetupError: The system has no lives, a folder cannot be made, or the report's is not there.
        """
        if self._ticks_folder is None and self._report_path is None:
            return
        if system != EPISODE_SYSTEM:
            raise errors.SetupError(f"--save-run and --save-report are for lives; {system} has none.")
        if self._report_path is not None and (self._report_path.is_dir() or not self._report_path.parent.is_dir()):
            reason = (
                "it is a folder" if self._report_path.is_dir() else f"there is no folder {self._report_path.parent}"
            )
            raise errors.SetupError(f"--save-report {self._report_path} cannot be written: {reason}.")
        try:
            if self._ticks_folder is not None:
                self._ticks_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"{error.filename} cannot be made: {error.strerror}.") from error

    def attach(self, session: Any) -> None:
        """Begins to write what a session tells."""
        if self._ticks_folder is not None or self._report_path is not None:
            session.evolver.use_profiler(self._on_event)

    def _on_event(self, event: Any) -> None:
        if event.type == "on_turn" and self._ticks_folder is not None:
            data = event.payload.to_data()
            path = self._ticks_folder / f"episode-{data['episode']}-{self._started_at}.jsonl"
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(data, ensure_ascii=False)}\n")
        elif event.type == "on_life_ended":
            self._episodes.append({name: value for name, value in event.payload.items() if name != "said"})

    def write_report(self) -> None:
        """Writes the report."""
        if self._report_path is None:
            return
        ticks, rewards = ([episode[name] for episode in self._episodes] for name in ("ticks", "reward"))
        count = max(1, len(self._episodes))
        means = {"mean_ticks": sum(ticks) / count, "mean_reward": sum(rewards) / count}
        data = {"episodes": len(self._episodes), **means, "lives": self._episodes}
        self._report_path.write_text(f"{json.dumps(data, indent=1)}\n", encoding="utf-8")
