"""Reward Synthesizer: external and internal rewards, and the balance of fear and curiosity."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atoll.candidate import JSON
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ExecutedAction
from atoll.survival.worlds.world import WorldGuide

NOVELTY_WEIGHT, DISTILLATION_WEIGHT, DEFENSE_REWARD = 0.02, 0.01, 0.05
TREND_TURNS = 12  # window of the moving average
MIN_CURIOSITY, MAX_CURIOSITY = 0.3, 1.6  # bounds of the curiosity weight

SCHEMA = "Order: survive > collect > explore. External: {rewards} Internal: novelty by visit counts and by prediction \
error, and a bonus for avoiding forecast danger."


@dataclass(slots=True)
class RewardSynthesizer:
    """Adds up the rewards of each turn, tracks trends and adjusts the curiosity weight.

    The weight falls while the agent loses life. It rises while nothing new happens.
    """

    totals: dict[str, float] = field(default_factory=dict)
    num_defenses: int = 0
    _trends: dict[str, deque[float]] = field(default_factory=dict)

    def add(self, agent: AgentState, steps: Sequence[ExecutedAction], *, is_defended: bool) -> Mapping[str, float]:
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
        """Returns warnings about the current trends."""
        messages = []
        if -self.get_trend("damage") > 0.04:
            messages.append("life is lost faster than it recovers: curiosity costs too much")
        if forecast > agent.settings.danger_threshold and self.get_trend("novelty") > NOVELTY_WEIGHT:
            messages.append("danger is high while exploration pays: survive first")
        if self.get_trend("external") < 0 and not self.get_trend("damage"):
            messages.append("no gains and no risks: look for something new")
        return messages

    def get_scoreboard(self) -> Mapping[str, JSON]:
        return {
            name: {"total": round(total, 3), "trend": round(self.get_trend(name), 4)}
            for name, total in self.totals.items()
        }

    def format_scoreboard(self, agent: AgentState, rewards: str = "") -> str:
        """Returns the rewards of the world, the weight of curiosity and the totals so far."""
        rows = [f"{name}: {total:+.2f} (recently {self.get_trend(name):+.3f})" for name, total in self.totals.items()]
        curiosity = f"current weight of curiosity: {agent.curiosity:.2f} (above 1: prefer cells that you have not seen)"
        return "\n".join([SCHEMA.format(rewards=rewards or WorldGuide().rewards), curiosity, *rows])
