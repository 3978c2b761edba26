"""Obeying: what comes through the inbox, under the evolver's lock."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import candidate, control, errors, evaluation, gate, journal
from atoll.cluster.config import EvolverConfig
from atoll.cluster.population import ALL, Population

POLL_SECONDS = 0.2  # between looks into the inbox


class Steering:
    """The settings, the budget and the brake of a run, as commands have left them."""

    def __init__(self, config: EvolverConfig, population: Population, switch: control.Switch) -> None:
        self._inbox, self._clock, self._population, self._switch = config.inbox, config.clock, population, switch
        self.budget = config.budget
        self.settings: dict[str, candidate.JSON] = {}
        self.is_paused = False
        self._last_number, self._polled_at = 0, -math.inf

    def recall(self, controlled: Sequence[Mapping[str, Any]]) -> None:
        """Takes in what an earlier start obeyed: settings and raised budgets stay, a pause or stop was its own."""
        for data in controlled:
            self._last_number = data["number"]
            if data["kind"] in ("set", "raise") and "refused" not in data:
                self._obey(0, control.Command(data["number"], data["kind"], data["data"]))

    def read(self, step: int, *, now: bool = False) -> Sequence[journal.Record]:
        """Obeys what is new in the inbox, a few times a second or at once; what makes no sense is refused."""
        if self._inbox is None or not (now or self._clock() - self._polled_at >= POLL_SECONDS):
            return ()
        self._polled_at = self._clock()
        written: list[journal.Record] = []
        for command in self._inbox.read(self._last_number):
            self._last_number = command.number
            done = errors.attempt(lambda: self._obey(step, command))  # noqa: B023 - called at once
            data: dict[str, Any] = {"number": command.number, "kind": command.kind, "data": dict(command.data)}
            if isinstance(done, errors.Caught):
                written.append(journal.Record("controlled", step, ALL, data | {"refused": str(done)}))
            else:
                written += [journal.Record("controlled", step, ALL, data), *done]
        return written

    def _obey(self, step: int, command: control.Command) -> Sequence[journal.Record]:
        data = command.data
        match command.kind:
            case "pause" | "resume":
                self.is_paused = command.kind == "pause"
            case "stop":
                self._switch.stop(str(data.get("reason", "stopped")))
            case "set":
                self.settings |= data
            case "raise":
                self.budget = self.budget.raised(data)
            case "decide":
                decision = gate.Decision(data["verdict"], data["reason"], data["by"])
                return self._population.decide(data["candidate"], data["content_hash"], decision)
            case "observe":
                found = evaluation.clean(evaluation.from_data(data["evaluation"]))
                return self._population.observe(step, data["island"], data["candidate"], found)
            case _:
                raise errors.SetupError(f"There is no command {command.kind!r}.")
        return ()
