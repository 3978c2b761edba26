"""Files that `run` writes for survival: every tick as JSON lines, and a report of the episodes."""

import json
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors

EPISODE_SYSTEM = "survival"  # the system whose iterations are episodes
EpisodesOption = Annotated[
    int | None, typer.Option("--episodes", min=1, metavar="N", help="Number of episodes (survival).")
]
SaveRunOption = Annotated[
    Path | None, typer.Option("--save-run", metavar="DIR", help="Save every tick as JSON lines (survival).")
]
SaveReportOption = Annotated[
    Path | None, typer.Option("--save-report", metavar="FILE", help="Save episode statistics as JSON (survival).")
]
TickDelayOption = Annotated[
    float | None, typer.Option("--tick-delay", min=0, metavar="S", help="Wait S seconds after each tick (survival).")
]
LingerOption = Annotated[
    float, typer.Option("--linger", min=0, metavar="S", help="Keep serving for S seconds after the run.")
]
_MAX_SLEEP_SECONDS = 1e9  # time.sleep() rejects much longer times


def check_episodes(system: str, episodes: int, iterations: int | None) -> None:
    """Raises SetupError if `--episodes` is given to another system, or together with `--iterations`."""
    if system != EPISODE_SYSTEM:
        raise errors.SetupError(f"System {system} has no episodes. Use --iterations {episodes}.")
    if iterations is not None:
        raise errors.SetupError("--episodes and --iterations mean the same. Leave out one of them.")


def linger(seconds: float) -> None:
    """Waits until the time is over or Ctrl-C is pressed."""
    with suppress(KeyboardInterrupt):
        time.sleep(min(seconds, _MAX_SLEEP_SECONDS))


class SurvivalRecorder:
    """Writes ticks and episodes of a session to files. Creates the folder for ticks at once, before the run.

    Args:
        system: System of the run.
        ticks_folder: Folder for ticks, or None.
        report_path: File for episodes, or None.

    Raises:
        SetupError: The system has no episodes, or one of the paths cannot be written.
    """

    def __init__(self, system: str, ticks_folder: Path | None, report_path: Path | None) -> None:
        self._ticks_folder, self._report_path = ticks_folder, report_path
        self._episodes: list[Any] = []
        self._started_at = f"{datetime.now():%Y%m%d-%H%M%S}"
        if system != EPISODE_SYSTEM:
            raise errors.SetupError(f"System {system} has no episodes. Leave out --save-run and --save-report.")
        if self._report_path is not None and (self._report_path.is_dir() or not self._report_path.parent.is_dir()):
            reason = "it is a folder" if self._report_path.is_dir() else f"folder {self._report_path.parent} not found"
            raise errors.SetupError(f"--save-report {self._report_path} cannot be written: {reason}.")
        try:
            if self._ticks_folder is not None:
                self._ticks_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"{error.filename} cannot be created: {error.strerror}.") from error

    def attach(self, session: Any) -> None:
        """Writes the events of a session from now on."""
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
        if self._report_path is None:
            return
        ticks, rewards = ([episode[name] for episode in self._episodes] for name in ("ticks", "reward"))
        count = max(1, len(self._episodes))
        means = {"mean_ticks": sum(ticks) / count, "mean_reward": sum(rewards) / count}
        data = {"episodes": len(self._episodes), **means, "lives": self._episodes}
        self._report_path.write_text(f"{json.dumps(data, indent=1)}\n", encoding="utf-8")
