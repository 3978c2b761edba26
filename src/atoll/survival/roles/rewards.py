"""Reward Synthesizer: external and internal rewards on one score board, and the balance of fear and curiosity."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atoll.candidate import JSON
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ExecutedAction

NOVELTY_WEIGHT, DISTILLATION_WEIGHT, DEFENSE_REWARD = 0.02, 0.01, 0.05
TREND_TURNS = 12  # turns of a moving average
MIN_CURIOSITY, MAX_CURIOSITY = 0.3, 1.6  # bounds of the coefficient

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
    num_defenses: int = 0
    _trends: dict[str, deque[float]] = field(default_factory=dict)

    def add(self, agent: AgentState, steps: Sequence[ExecutedAction], *, is_defended: bool) -> Mapping[str, float]:
        """Returns the rewards of a turn by name."""
        external = sum(step.after.reward for step in steps if step.status not in ("blocked",))
        damage = sum(sum(step.after.harm.values()) for step in steps)
        visit_novelty = sum(agent.visit_counts.measure_novelty(step.after.position) for step in steps)
        distillation_novelty = agent.distillation.measure_novelty(steps[-1].after) if steps else 0.0
        self.num_defenses += is_defended
        rewards = {
            "external": external,
            "damage": -damage,
            "novelty": NOVELTY_WEIGHT * visit_novelty * agent.curiosity,
            "distilled": DISTILLATION_WEIGHT * distillation_novelty * agent.curiosity,
            "defence": DEFENSE_REWARD * is_defended,
        }
        for name, value in rewards.items():
            self.totals[name] = self.totals.get(name, 0.0) + value
            self._trends.setdefault(name, deque(maxlen=TREND_TURNS)).append(value)
        self._adjust_curiosity(agent, steps)
        return rewards

    def get_trend(self, name: str) -> float:
        """Returns the moving average of a reward."""
        values = self._trends.get(name)
        return sum(values) / len(values) if values else 0.0

    def _adjust_curiosity(self, agent: AgentState, steps: Sequence[ExecutedAction]) -> None:
        life = steps[-1].after.life if steps else 1.0
        if -self.get_trend("damage") > 0.02 or life < 0.4:
            agent.curiosity_weight = max(MIN_CURIOSITY, agent.curiosity_weight * 0.95)
        elif self.get_trend("novelty") < 0.6 * NOVELTY_WEIGHT:
            agent.curiosity_weight = min(MAX_CURIOSITY, agent.curiosity_weight * 1.03)
        else:
            agent.curiosity_weight += 0.02 * (1.0 - agent.curiosity_weight)

    def find_warnings(self, agent: AgentState, forecast: float) -> list[str]:
        """Returns what is traded badly at the moment."""
        messages = []
        if -self.get_trend("damage") > 0.04:
            messages.append("life is being spent faster than it comes back: curiosity costs too much")
        if forecast > agent.settings.danger_threshold and self.get_trend("novelty") > NOVELTY_WEIGHT:
            messages.append("danger is high while exploring pays: survive first")
        if self.get_trend("external") < 0 and not self.get_trend("damage"):
            messages.append("nothing is gained and nothing is risked: look for something new")
        return messages

    def get_scoreboard(self) -> Mapping[str, JSON]:
        """Returns the score board: totals and trends."""
        return {
            name: {"total": round(total, 3), "trend": round(self.get_trend(name), 4)}
            for name, total in self.totals.items()
        }

    def format_scoreboard(self, agent: AgentState) -> str:
        """Returns the board for a prompt."""
        rows = [f"{name}: {total:+.2f} (lately {self.get_trend(name):+.3f})" for name, total in self.totals.items()]
        return "\n".join([SCHEMA, f"curiosity counts {agent.curiosity_weight:.2f} at the moment", *rows])
