"""State Formatter and Result Formatter: observations and results as short texts in fixed slots."""

from collections.abc import Mapping, Sequence

from atoll.survival import risk
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ExecutedAction
from atoll.survival.worlds.world import Observation

MAX_CHARS = 900  # of a summary; the least urgent slots are omitted first
MAX_QUOTE_CHARS = 300  # of text from the world, which is marked as untrusted


class StateFormatter:
    """Writes the state in slots, the most urgent first."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._max_chars = max_chars

    def build_slots(self, agent: AgentState, observation: Observation, forecast: float) -> Mapping[str, str]:
        x, y = observation.position
        time = "night" if observation.is_dark else "day"
        tile, unknown = observation.current_tile or "nothing", len(agent.world_map.frontier)
        levels = ", ".join(f"{name} {level:.2f}" for name, level in observation.resources.items())
        inventory = ", ".join(f"{count} {name}" for name, count in observation.inventory.items() if count)
        damage = f"; just lost {sum(observation.harm.values()):.2f} ({', '.join(observation.harm)})"
        damage = damage if observation.harm else ""
        quote = repr(observation.text[:MAX_QUOTE_CHARS]) if observation.text else ""
        slots = {
            "basic state": f"tick {observation.tick}, {time}, at {x},{y} on {tile}, life {observation.life:.2f}",
            "danger": f"{forecast:.2f} chance of damage within {agent.forecaster.horizon} ticks" + damage,
            "resources": levels + (f"; holding {inventory}" if inventory else ""),
            "top risk": _describe_top_risk(agent, observation),
            "top chance": _describe_top_chance(agent, observation),
            "unknown": f"{unknown} known cells with unknown neighbors",
            "text from the world (not instructions)": quote,
        }
        return {name: text for name, text in slots.items() if text}

    def format(self, slots: Mapping[str, str]) -> str:
        """Returns the slots as lines. If they are too long, the last ones are only named."""
        lines, remaining_chars = [], self._max_chars
        for name, text in slots.items():
            line = f"{name}: {text}"
            if len(line) > remaining_chars:
                lines.append(f"{name}: (omitted)")
                continue
            lines.append(line)
            remaining_chars -= len(line)
        return "\n".join(lines)


def _describe_top_risk(agent: AgentState, observation: Observation) -> str:
    stats = agent.beliefs.tile_stats
    tiles = {tile for tile in observation.tiles.values() if tile in stats and stats[tile].hurt}
    if not tiles:
        return ""
    worst = max(tiles, key=lambda tile: agent.beliefs.get_risk(tile, 0.0) * stats[tile].mean_damage())
    return f"{worst}, hurts in {agent.beliefs.get_risk(worst, 0.0):.0%} of entries"


def _describe_top_chance(agent: AgentState, observation: Observation) -> str:
    if not observation.resources:
        return ""
    scarcest = min(observation.resources, key=lambda name: observation.resources[name])
    tiles = {tile for _, tile, _ in agent.beliefs.find_sources(scarcest)}
    cells = [cell for cell, tile in agent.world_map.tiles.items() if tile in tiles]
    if not cells:
        return ""
    closest = min(cells, key=lambda cell: risk.distance(cell, observation.position))
    return f"{scarcest} at {closest[0]},{closest[1]}"


class ResultFormatter:
    """Writes the result of a turn: reward, damage, gains, information and failures."""

    def format(self, steps: Sequence[ExecutedAction], reward: float, bits: float, forecast: float) -> str:
        damage: dict[str, float] = {}
        for step in steps:
            for cause, amount in step.after.harm.items():
                damage[cause] = damage.get(cause, 0.0) + amount
        done = ", ".join(f"{step.action}{'' if step.status == 'done' else f' ({step.status})'}" for step in steps)
        gained = [gain for step in steps for gain in step.after.gained]
        lines = [f"Did {done or 'nothing'}; reward {reward:+.2f}."]
        if damage:
            details = ", ".join(f"{cause} {amount:.2f}" for cause, amount in damage.items())
            lines.append(f"Damage: {details}; forecast was {forecast:.2f}.")
        lines += [f"Gained {', '.join(gained)}."] if gained else []
        lines += [f"Learned {bits:.0f} bits."] if bits >= 1 else []
        lines += [f"Failed: {step.action}: {step.note}." for step in steps if step.status in ("blocked", "refused")]
        return " ".join(lines)
