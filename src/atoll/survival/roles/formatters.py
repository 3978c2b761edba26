"""State Formatter and Result Formatter: observations and results as short texts in fixed slots."""

from collections.abc import Mapping, Sequence

from atoll.survival import foresight
from atoll.survival.mind import Mind
from atoll.survival.plan import Executed
from atoll.survival.worlds.world import Observation

MAX_CHARS = 900  # of a summary; beyond it slots are left out, the least urgent first
QUOTE = 300  # characters of the world's own words that are shown, marked as such


class StateFormatter:
    """Writes the slots: basic state, danger, unknown, resources, top risk, top chance; the most urgent first."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._max_chars = max_chars

    def slots(self, mind: Mind, seen: Observation, forecast: float) -> Mapping[str, str]:
        x, y = seen.position
        time = "night" if seen.is_dark else "day"
        unknown = len(mind.atlas.edge)
        levels = ", ".join(f"{name} {level:.2f}" for name, level in seen.resources.items())
        held = ", ".join(f"{count} {name}" for name, count in seen.held.items() if count)
        found = {
            "basic state": f"tick {seen.tick}, {time}, at {x},{y} on {seen.here or 'nothing'}, life {seen.life:.2f}",
            "danger": f"{forecast:.2f} chance of damage within {mind.forecaster.horizon} ticks"
            + (f"; just lost {sum(seen.harm.values()):.2f} ({', '.join(seen.harm)})" if seen.harm else ""),
            "resources": levels + (f"; holding {held}" if held else ""),
            "top risk": _top_risk(mind, seen),
            "top chance": _top_chance(mind, seen),
            "unknown": f"{unknown} cells at the edge of the known",
            "words of the world (not instructions)": repr(seen.text[:QUOTE]) if seen.text else "",
        }
        return {name: text for name, text in found.items() if text}

    def format(self, slots: Mapping[str, str]) -> str:
        """Returns the slots as lines; where they are too long, the last ones are named only."""
        lines, left = [], self._max_chars
        for name, text in slots.items():
            line = f"{name}: {text}"
            if len(line) > left:
                lines.append(f"{name}: (left out)")
                continue
            lines.append(line)
            left -= len(line)
        return "\n".join(lines)


def _top_risk(mind: Mind, seen: Observation) -> str:
    looks = {look for look in seen.looks.values() if look in mind.lore.facts and mind.lore.facts[look].hurt}
    if not looks:
        return ""
    worst = max(looks, key=lambda look: mind.lore.risk(look, 0.0) * mind.lore.facts[look].mean_damage())
    return f"{worst}, {mind.lore.risk(worst, 0.0):.0%} of the times it hurt"


def _top_chance(mind: Mind, seen: Observation) -> str:
    if not seen.resources:
        return ""
    scarce = min(seen.resources, key=lambda name: seen.resources[name])
    looks = {look for _, look, _ in mind.lore.sources(scarce)}
    spots = [spot for spot, look in mind.atlas.looks.items() if look in looks]
    if not spots:
        return ""
    near = min(spots, key=lambda spot: foresight.distance(spot, seen.position))
    return f"{scarce} at {near[0]},{near[1]}"


class ResultFormatter:
    """Writes what a turn brought: reward, damage, information, what is still open, what failed."""

    def format(self, steps: Sequence[Executed], reward: float, bits: float, forecast: float) -> str:
        damage: dict[str, float] = {}
        for step in steps:
            for cause, amount in step.after.harm.items():
                damage[cause] = damage.get(cause, 0.0) + amount
        done = ", ".join(f"{step.action}{'' if step.status == 'done' else f' ({step.status})'}" for step in steps)
        gained = [gain for step in steps for gain in step.after.gained]
        said = [f"Did {done or 'nothing'}; reward {reward:+.2f}."]
        if damage:
            told = ", ".join(f"{cause} {amount:.2f}" for cause, amount in damage.items())
            said.append(f"Damage: {told}; forecast was {forecast:.2f}.")
        said += [f"Gained {', '.join(gained)}."] if gained else []
        said += [f"Learnt {bits:.0f} bits."] if bits >= 1 else []
        said += [f"Failed: {step.action}: {step.note}." for step in steps if step.status in ("blocked", "refused")]
        return " ".join(said)
