"""Learning from one action: beliefs at once, and lessons, which the ACE Reflector turns into playbook deltas."""

from collections.abc import Sequence
from typing import NamedTuple

from atoll import playbook
from atoll.survival import beliefs
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ExecutedAction
from atoll.survival.worlds.world import REACH_FACING, Observation

BODY_CAUSES = frozenset({"hunger", "thirst", "cold", "fatigue"})  # felt inside the body, independent of the tile
MIN_REFUGE_NIGHTS = 2
MIN_RISE = 0.02  # of a resource, for a tile to count as its source
FATAL_DAMAGE = 0.999  # damage of a cause that kills at once, at any life level


class Lesson(NamedTuple):
    """Sentence for the playbook, or evidence for one.

    Attributes:
        subject: Tile or action.
        section: Playbook section.
        text: The sentence.
        evidence: The observation behind it.
        refutes: Prefix of sentences that it refutes.
    """

    subject: str
    section: str
    text: str
    evidence: str
    refutes: str = ""


def learn(agent: AgentState, step: ExecutedAction) -> list[Lesson]:
    before, after, name = step.before, step.after, step.action.name
    tile_ahead = _get_tile_ahead(agent, step)
    is_collision = before.position == after.position or after.harm.get(tile_ahead or "", 0.0) >= FATAL_DAMAGE
    ran_into = tile_ahead if is_collision else None
    lessons = _learn_creatures(agent, after, ran_into)
    if name in agent.world.moves:
        lessons += [] if after.refused else _learn_move(agent, step)
    else:
        lessons += _learn_stay(agent, before, after) + _learn_use(agent, step)
    return lessons + _learn_night(agent, before, after)


def get_ground_damage(agent: AgentState, observation: Observation) -> float:
    """Returns the damage from the cell itself, without hunger, cold and creatures."""
    stats = agent.beliefs.tile_stats
    other_causes = {cause for cause in observation.harm if cause in stats and stats[cause].hunts} | BODY_CAUSES
    return sum(amount for cause, amount in observation.harm.items() if cause not in other_causes)


def _learn_move(agent: AgentState, step: ExecutedAction) -> list[Lesson]:
    before, after = step.before, step.after
    dx, dy = agent.world.moves[step.action.name]
    target = (before.position[0] + dx, before.position[1] + dy)
    tile = before.tiles.get(target)
    if tile is None:
        return []
    stats = agent.beliefs.get_tile_stats(tile)
    if tile in after.harm and (
        after.position != target or after.harm[tile] >= FATAL_DAMAGE
    ):  # the tile hurts on contact and blocks the way
        stats.blocked += 1
        stats.hurt, stats.damage, stats.cause = stats.hurt + 1, stats.damage + after.harm[tile], tile
        text = beliefs.AVOID.format(look=tile, cause=tile, damage=after.harm[tile])
        evidence = f"ran into it at {target}"
        return [
            Lesson(tile, "tactics", text, evidence),
            Lesson(tile, "recipes", beliefs.BLOCKS.format(look=tile), evidence),
        ]
    if after.position != target:
        if agent.beliefs.get_tile_stats(before.current_tile).hurt:  # stuck in a pit, not blocked
            return _learn_stay(agent, before, after)
        stats.blocked += 1
        is_new = stats.blocked == 1 and not stats.entered
        return [Lesson(tile, "recipes", beliefs.BLOCKS.format(look=tile), f"ran into it at {target}")] if is_new else []
    return _learn_entry(agent, tile, before, after)


def _learn_entry(agent: AgentState, tile: str, before: Observation, after: Observation) -> list[Lesson]:
    stats, damage = agent.beliefs.get_tile_stats(tile), get_ground_damage(agent, after)
    gained = after.gained or [
        name for name, level in after.resources.items() if level - before.resources.get(name, level) > MIN_RISE
    ]
    if not stats.entered:
        agent.forecaster.record_first_entry(damage > 0)
    stats.entered += 1
    if gained and damage <= 0:
        effect = agent.beliefs.get_effect("enter", tile)
        effect.tries, effect.gains[gained[0]] = effect.tries + 1, effect.gains[gained[0]] + 1
        text = beliefs.GIVES.format(action="enter", look=tile, gain=gained[0])
        return [Lesson(tile, "recipes", text, f"it did at tick {after.tick}")]
    if damage > 0:
        stats.hurt, stats.damage = stats.hurt + 1, stats.damage + damage
        stats.cause = next(cause for cause in after.harm if cause not in BODY_CAUSES)
        text = beliefs.AVOID.format(look=tile, cause=stats.cause, damage=damage)
        return [Lesson(tile, "tactics", text, f"lost {damage:.2f} at tick {after.tick}", f"{tile} is harmless")]
    text, evidence = beliefs.HARMLESS.format(look=tile), f"entered unharmed at tick {after.tick}"
    if stats.hunts or not (stats.entered == 1 or stats.hurt):
        return []  # one visit unharmed does not make a hunter harmless
    return [Lesson(tile, "tactics", text, evidence, f"Avoid {tile}:")]


def _learn_stay(agent: AgentState, before: Observation, after: Observation) -> list[Lesson]:
    damage = get_ground_damage(agent, after)
    if damage > 0 and before.current_tile:
        stats = agent.beliefs.get_tile_stats(before.current_tile)
        stats.entered, stats.hurt, stats.damage = stats.entered + 1, stats.hurt + 1, stats.damage + damage
        stats.cause = stats.cause or next(cause for cause in after.harm if cause not in BODY_CAUSES)
    return []


def _get_tile_ahead(agent: AgentState, step: ExecutedAction) -> str | None:
    """Returns the tile that a move led to."""
    if step.action.name not in agent.world.moves:
        return None
    dx, dy = agent.world.moves[step.action.name]
    return step.before.tiles.get((step.before.position[0] + dx, step.before.position[1] + dy))


def _learn_creatures(agent: AgentState, after: Observation, ran_into: str | None) -> list[Lesson]:
    """Learns hunters: a cause that is also a visible tile is a creature, unless the agent ran into it."""
    lessons = []
    for cause, amount in after.harm.items():
        if cause in (after.current_tile, ran_into) or (
            cause not in agent.world_map.known_tiles and cause not in after.tiles.values()
        ):
            continue
        stats = agent.beliefs.get_tile_stats(cause)
        if not stats.hunts:
            text, evidence = beliefs.HUNTS.format(look=cause), f"lost {amount:.2f} at tick {after.tick}"
            lessons.append(Lesson(cause, "tactics", text, evidence, f"{cause} is harmless"))
        stats.hunts, stats.cause = True, cause
        stats.entered, stats.hurt, stats.damage = stats.entered + 1, stats.hurt + 1, stats.damage + amount
    return lessons


def _learn_use(agent: AgentState, step: ExecutedAction) -> list[Lesson]:
    before, after, action = step.before, step.after, step.action.name
    if action == "wait":
        return []
    if action not in agent.world.things:
        recipe = agent.recipe_book.learn(action, before, after)
        return [Lesson(action, "recipes", recipe.text, f"it did at tick {after.tick}")] if recipe else []
    agent.recipe_book.gained_items.update(after.gained)
    tile = step.action.target or get_action_target(agent, before)
    if after.refused:
        return _learn_refusal(agent, step)
    effect = agent.beliefs.get_effect(action, tile)
    effect.tries += 1
    lessons = []
    for gain in dict.fromkeys(after.gained):
        effect.gains[gain] += 1
        text = beliefs.GIVES.format(action=action, look=tile, gain=gain)
        evidence = f"it did at tick {after.tick}"
        lessons.append(Lesson(tile, "recipes", text, evidence, f"{action} at {tile} gives nothing"))
    if not effect.gains and effect.tries == agent.world.patience:
        text = beliefs.GIVES_NOTHING.format(action=action, look=tile)
        lessons.append(Lesson(tile, "recipes", text, f"{agent.world.patience} tries without"))
    return lessons


def _learn_refusal(agent: AgentState, step: ExecutedAction) -> list[Lesson]:
    """Records refused actions in the same way as damage."""
    subject, damage = str(step.action), sum(step.after.harm.values())
    stats = agent.beliefs.get_tile_stats(subject)
    stats.entered, stats.hurt = stats.entered + 1, stats.hurt + 1
    stats.damage, stats.cause = stats.damage + damage, "refusal"
    text = beliefs.AVOID.format(look=subject, cause="refusal", damage=damage)
    return [Lesson(subject, "tactics", text, step.after.refused[:120])]


def get_action_target(agent: AgentState, observation: Observation) -> str:
    """Returns the tile that an action applies to."""
    if agent.world.reach == REACH_FACING and observation.facing is not None:
        return observation.tiles.get(observation.facing, "nothing")
    return observation.current_tile or "nothing"


def _learn_night(agent: AgentState, before: Observation, after: Observation) -> list[Lesson]:
    agent_beliefs, lessons = agent.beliefs, list[Lesson]()
    if before.is_dark and not after.is_dark:
        agent.day_start = after.tick
    if after.is_dark and not before.is_dark:
        daylight_ticks = after.tick - agent.day_start
        if agent_beliefs.daylight is None:
            agent_beliefs.daylight = daylight_ticks
            evidence = f"night fell at tick {after.tick}"
            lessons.append(Lesson("daylight", "reflections", beliefs.DAYLIGHT.format(ticks=daylight_ticks), evidence))
    if not (before.is_dark and after.is_dark):
        return lessons
    if "cold" in after.harm:
        was_harmful = agent_beliefs.is_dark_harmful()
        agent_beliefs.dark_harm_ticks += 1
        agent_beliefs.dark_ticks += 1
        if agent_beliefs.is_dark_harmful() and not was_harmful:
            lessons.append(Lesson("dark", "reflections", beliefs.DARK, f"cold at tick {after.tick}"))
    elif agent_beliefs.is_dark_harmful() and after.current_tile:
        agent_beliefs.refuges[after.current_tile] += 1
        if agent_beliefs.refuges[after.current_tile] == MIN_REFUGE_NIGHTS:
            text = beliefs.REFUGE.format(look=after.current_tile)
            lessons.append(Lesson(after.current_tile, "tactics", text, f"no cold there at tick {after.tick}"))
    return lessons


def learn_renewals(agent: AgentState, tile_changes: list[tuple[str, str, int]]) -> list[Lesson]:
    """Learns tiles that regrow: a tile changed back into one with a known gain.

    Worlds with `reach` "facing" are skipped: moving creatures would look like regrowth.
    """
    if agent.world.reach == REACH_FACING:
        return []
    lessons = []
    for old_tile, new_tile, ticks in tile_changes:
        is_source = any(tile == new_tile and effect.gains for (_, tile), effect in agent.beliefs.effects.items())
        if (
            is_source
            and old_tile not in agent.beliefs.renewals
            and old_tile != new_tile
            and not agent.beliefs.get_tile_stats(old_tile).hunts
        ):
            agent.beliefs.renewals[old_tile] = (new_tile, ticks)
            text = beliefs.RENEWS.format(look=old_tile, other=new_tile, ticks=ticks)
            lessons.append(Lesson(old_tile, "recipes", text, f"seen after {ticks} ticks"))
    return lessons


MAX_DELTAS = 3  # per turn; lessons about damage come first


class LessonReflector:
    def reflect(self, book: playbook.Playbook, lessons: Sequence[Lesson]) -> list[playbook.Delta]:
        ids_by_content = {bullet.content: id for id, bullet in book.bullets.items()} if lessons else {}
        deltas: list[playbook.Delta] = []
        for lesson in lessons:
            refuted_ids = [
                id for content, id in ids_by_content.items() if lesson.refutes and content.startswith(lesson.refutes)
            ]
            deltas += [playbook.tag(id, "harmful", evidence=lesson.evidence) for id in refuted_ids]
            # `harmless` refuted by damage is dangerous and goes at once, unless it has helped more often.
            is_damage = lesson.refutes.endswith("is harmless")
            wrong_ids = [id for id in refuted_ids if is_damage and book.bullets[id].net_helpful <= 0]
            deltas += [playbook.remove(id, evidence=lesson.evidence, source="life") for id in wrong_ids]
            belief = lesson.text.partition("(")[0]  # the same belief with any damage
            known_id = next((id for content, id in ids_by_content.items() if content.partition("(")[0] == belief), None)
            if known_id is not None:
                deltas.append(playbook.tag(known_id, "helpful", evidence=lesson.evidence))
            else:
                source = "life" if not lesson.evidence else f"life: {lesson.evidence}"
                deltas.append(playbook.add(lesson.section, lesson.text, evidence=lesson.evidence, source=source[:80]))
        return sorted(deltas, key=lambda delta: delta.section != "tactics")[:MAX_DELTAS]
