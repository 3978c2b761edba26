"""Execution Engine: executes allowed actions one by one, and stops or evades in danger."""

from dataclasses import dataclass, replace

from atoll.survival import risk
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ActionPlan, Evasion, ExecutedAction, Status
from atoll.survival.roles.sentinel import Sentinel
from atoll.survival.worlds.world import REACH_FACING, Action, Observation

HUNTER_ALARM_DISTANCE = 2  # a new hunter within this many cells ends the plan


@dataclass(slots=True)
class ExecutionEngine:
    """Executes plans. Only actions on the whitelist of the world reach it."""

    sentinel: Sentinel

    def run(
        self, agent: AgentState, plan: ActionPlan, observation: Observation, evasion: Evasion | None = None
    ) -> list[ExecutedAction]:
        """Executes a plan as far as it is safe; returns at least one action.

        Args:
            agent: Its beliefs and settings.
            plan: The plan, or the safer one that replaces it.
            observation: Current observation.
            evasion: Reaction to the forecast of the proposed plan; None if it was below the threshold.
        """
        steps: list[ExecutedAction] = []
        if evasion is not None and evasion.outcome == "evaded":
            danger = f"forecast {evasion.forecast:.2f} is above the threshold {evasion.threshold:.2f}"
            return [self._evade(agent, Action("the plan"), observation, danger, plan.actions[0])]
        for index, action in enumerate(plan.actions):
            if index and evasion is None and (rise := self._find_rise(agent, plan, index, observation)):
                self.sentinel.log("aborted", observation.tick, reason=rise, action=str(action))
                break
            if objection := self.sentinel.find_objection(agent, action, observation):
                self.sentinel.log("blocked", observation.tick, action=str(action), reason=objection)
                steps.append(ExecutedAction(action, "blocked", observation, observation, objection))
                continue
            if danger := self._find_danger(agent, action, observation):
                steps.append(self._evade(agent, action, observation, danger))
                break
            after = self._act(agent, action, observation)
            status: Status = "refused" if after.refused else "done"
            steps.append(ExecutedAction(action, status, observation, after, after.refused))
            if after.is_over:
                break
            if reason := self._find_abort_reason(agent, observation, after):
                if index + 1 < len(plan.actions):
                    self.sentinel.log("aborted", after.tick, reason=reason, action=str(plan.actions[index + 1]))
                break
            observation = after
        if all(step.status == "blocked" for step in steps):
            steps.append(self._evade(agent, Action("nothing"), observation, "no action of the plan was possible"))
        return steps

    def _act(self, agent: AgentState, action: Action, observation: Observation) -> Observation:
        after = self.sentinel.sanitize(agent.world.act(action))
        _update_consumption(agent, observation, after)
        return after

    def _find_danger(self, agent: AgentState, action: Action, observation: Observation) -> str:
        """Returns why an action is too dangerous now; empty if it is safe enough."""
        if not agent.settings.has_fear or action.name not in agent.world.moves:
            return ""
        dx, dy = agent.world.moves[action.name]
        tile = observation.tiles.get((observation.position[0] + dx, observation.position[1] + dy))
        stats = agent.beliefs.tile_stats.get(tile) if tile is not None else None
        if tile is None or stats is None or not stats.hurt:
            return ""
        if agent.world.reach == REACH_FACING and (stats.hunts or agent.beliefs.is_wall(tile)):
            return ""  # in this world the move only turns the agent
        current_stats = agent.beliefs.tile_stats.get(observation.current_tile)
        if current_stats is not None and current_stats.hurt > 0.5 * current_stats.entered:
            return ""  # already inside; the way out may lead through it
        risk, threshold = agent.beliefs.get_risk(tile, 0.0), agent.settings.danger_threshold
        is_severe = stats.mean_damage() >= 0.5 * observation.life
        if risk > threshold or (is_severe and risk > 0.5 * threshold):
            return f"{tile} hurts with probability {risk:.2f}, threshold {threshold:.2f}"
        return ""

    def _find_rise(self, agent: AgentState, plan: ActionPlan, index: int, observation: Observation) -> str:
        """Returns why the rest of a plan became too dangerous; empty if its forecast is below the threshold."""
        if not agent.settings.has_fear:
            return ""
        rest = replace(plan, actions=plan.actions[index:])
        forecast = agent.forecaster.forecast(risk.extract_plan_features(agent, observation, rest))
        threshold = agent.settings.danger_threshold
        return f"forecast {forecast:.2f} rose above the threshold {threshold:.2f}" if forecast > threshold else ""

    def _evade(
        self, agent: AgentState, action: Action, observation: Observation, danger: str, instead: Action | None = None
    ) -> ExecutedAction:
        instead = instead or self.sentinel.choose_fallback(agent, observation)
        self.sentinel.log("emergency", observation.tick, action=str(action), instead=str(instead), reason=danger)
        after = self._act(agent, instead, observation)
        return ExecutedAction(instead, "evaded", observation, after, f"instead of {action}: {danger}")

    def _find_abort_reason(self, agent: AgentState, observation: Observation, after: Observation) -> str:
        """Returns why the rest of a plan is dropped after an action; empty to continue."""
        if after.refused:
            return after.refused
        if after.harm:
            return f"damage from {', '.join(after.harm)}"
        if after.is_dark != observation.is_dark:
            return "night falls" if after.is_dark else "day breaks"
        if agent.settings.has_fear:
            distances = [risk.distance(cell, after.position) for cell in risk.find_hunters(agent, after)]
            if min(distances, default=HUNTER_ALARM_DISTANCE + 1) <= HUNTER_ALARM_DISTANCE:
                return "a hunter is near"
        return ""


def _update_consumption(agent: AgentState, observation: Observation, after: Observation) -> None:
    ticks = max(1, after.tick - observation.tick)
    for name, level in after.resources.items():
        spent = (observation.resources.get(name, level) - level) / ticks
        if spent > 0:
            agent.consumption_rates[name] = agent.consumption_rates.get(name, spent) * 0.9 + 0.1 * spent


def clear_effects(observation: Observation) -> Observation:
    """Returns an observation without the effects of the last action."""
    return replace(observation, harm={}, gained=(), reward=0.0, refused="")
