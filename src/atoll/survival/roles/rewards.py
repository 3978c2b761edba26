"""Reward Synthesizer: external and internal rewards on one score board, and the balance of fear and curiosity."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atoll.candidate import JSON
from atoll.survival.mind import Mind
from atoll.survival.plan import Executed

NOVELTY, DISTILLED, DEFENCE = 0.02, 0.01, 0.05
SPAN = 12  # turns of a moving average
LEAST, MOST = 0.3, 1.6  # bounds of the coefficient

SCHEMA = "Order: survive > collect > explore. External: a little for every tick alive and for shelter, more for meals, \
minus damage, minus 1 for death. Internal: novelty by counts and by prediction error, a bonus for danger that was \
foreseen and avoided."


@dataclass(slots=True)
class RewardSynthesizer:
    """Adds up a turn, keeps the trends, warns of bad trades, and turns the coefficient.

    The coefficient falls while life is being lost and rises while nothing happens and nothing new is seen: the
    exceptions to "survive first" adjust themselves.
    """

    totals: dict[str, float] = field(default_factory=dict)
    num_defences: int = 0
    _trends: dict[str, deque[float]] = field(default_factory=dict)

    def add(self, mind: Mind, steps: Sequence[Executed], *, is_defended: bool) -> Mapping[str, float]:
        """Returns the rewards of a turn by name."""
        external = sum(step.after.reward for step in steps if step.status not in ("blocked",))
        damage = sum(sum(step.after.harm.values()) for step in steps)
        counted = sum(mind.counts.meet(step.after.position) for step in steps)
        distilled = mind.distillation.meet(steps[-1].after) if steps else 0.0
        self.num_defences += is_defended
        rewards = {
            "external": external,
            "damage": -damage,
            "novelty": NOVELTY * counted * mind.curiosity,
            "distilled": DISTILLED * distilled * mind.curiosity,
            "defence": DEFENCE * is_defended,
        }
        for name, value in rewards.items():
            self.totals[name] = self.totals.get(name, 0.0) + value
            self._trends.setdefault(name, deque(maxlen=SPAN)).append(value)
        self._balance(mind, steps)
        return rewards

    def trend(self, name: str) -> float:
        """Returns the moving average of a reward."""
        values = self._trends.get(name)
        return sum(values) / len(values) if values else 0.0

    def _balance(self, mind: Mind, steps: Sequence[Executed]) -> None:
        life = steps[-1].after.life if steps else 1.0
        if -self.trend("damage") > 0.02 or life < 0.4:
            mind.coefficient = max(LEAST, mind.coefficient * 0.95)
        elif self.trend("novelty") < 0.6 * NOVELTY:
            mind.coefficient = min(MOST, mind.coefficient * 1.03)
        else:
            mind.coefficient += 0.02 * (1.0 - mind.coefficient)

    def warnings(self, mind: Mind, forecast: float) -> list[str]:
        """Returns what is traded badly at the moment."""
        found = []
        if -self.trend("damage") > 0.04:
            found.append("life is being spent faster than it comes back: curiosity costs too much")
        if forecast > mind.temper.danger_threshold and self.trend("novelty") > NOVELTY:
            found.append("danger is high while exploring pays: survive first")
        if self.trend("external") < 0 and not self.trend("damage"):
            found.append("nothing is gained and nothing is risked: look for something new")
        return found

    def board(self) -> Mapping[str, JSON]:
        """Returns the score board: totals and trends."""
        return {
            name: {"total": round(total, 3), "trend": round(self.trend(name), 4)} for name, total in self.totals.items()
        }

    def table(self, mind: Mind) -> str:
        """Returns the board for a prompt."""
        rows = [f"{name}: {total:+.2f} (lately {self.trend(name):+.3f})" for name, total in self.totals.items()]
        return "\n".join([SCHEMA, f"curiosity counts {mind.coefficient:.2f} at the moment", *rows])
