"""State that commands change: settings, budget, pause. Used under the evolver's lock."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import candidate, control, errors, evaluation, gate, journal
from atoll.cluster.archipelago_state import ALL_ISLANDS, ArchipelagoState
from atoll.cluster.config import EvolverConfig

POLL_SECONDS = 0.2  # between reads of the inbox


class ControlState:
    """Settings, budget and pause of a run, as changed by commands."""

    def __init__(self, config: EvolverConfig, state: ArchipelagoState, stop_signal: control.StopSignal) -> None:
        self._inbox, self._clock, self._state, self._stop_signal = config.inbox, config.clock, state, stop_signal
        self.budget = config.budget
        self.settings: dict[str, candidate.JSON] = {}
        self.is_paused = False
        self._last_command, self._polled_at = 0, -math.inf

    def restore(self, commands: Sequence[Mapping[str, Any]]) -> None:
        """Restores the settings and raised budgets of an earlier start, but not its pause or stop."""
        for data in commands:
            self._last_command = data["number"]
            if data["kind"] in ("set", "raise") and "refused" not in data:
                self._execute(0, control.Command(data["number"], data["kind"], data["data"]))

    def read_commands(self, iteration: int, *, force: bool = False) -> Sequence[journal.Record]:
        """Carries out new commands, a few times a second or at once; refuses invalid ones."""
        if self._inbox is None or not (force or self._clock() - self._polled_at >= POLL_SECONDS):
            return ()
        self._polled_at = self._clock()
        new_records: list[journal.Record] = []
        for command in self._inbox.read(self._last_command):
            self._last_command = command.number
            result = errors.capture(lambda: self._execute(iteration, command))  # noqa: B023 - called at once
            data: dict[str, Any] = {"number": command.number, "kind": command.kind, "data": dict(command.data)}
            is_refused = isinstance(result, errors.CaughtException)
            data |= {"refused": str(result)} if is_refused else {}
            new_records.append(journal.Record(journal.CONTROLLED, iteration, ALL_ISLANDS, data))
            new_records += () if isinstance(result, errors.CaughtException) else result
        return new_records

    def _execute(self, iteration: int, command: control.Command) -> Sequence[journal.Record]:
        data = command.data
        match command.kind:
            case "pause" | "resume":
                self.is_paused = command.kind == "pause"
            case "stop":
                self._stop_signal.stop(str(data.get("reason", "stopped")))
            case "set":
                self.settings |= data
            case "raise":
                self.budget = self.budget.with_raised_limits(data)
            case "decide":
                decision = gate.Decision(data["verdict"], data["reason"], data["by"])
                return self._state.decide(data["candidate"], data["content_hash"], decision)
            case "observe":
                result = evaluation.validate(evaluation.from_data(data["evaluation"]))
                return self._state.update_evaluation(iteration, data["island"], data["candidate"], result)
            case _:
                raise errors.SetupError(f"{command.kind!r} is not a command.")
        return ()
