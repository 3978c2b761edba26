"""What a body learns from one action: beliefs at once, and lessons that are worth a sentence of the playbook."""

from typing import NamedTuple

from atoll.survival import lore
from atoll.survival.mind import Mind
from atoll.survival.plan import Executed
from atoll.survival.worlds.world import FACING, Observation

AMBIENT = frozenset({"hunger", "thirst", "cold", "fatigue"})  # felt inside the body, whatever one stands on
PLAIN_NIGHTS = 2
FATAL = 0.999  # damage of something that kills at a blow, wherever one then lies


class Lesson(NamedTuple):
    """A sentence worth keeping, or the proof of one.

    Attributes:
        about: The look or deed that it is about.
        section: Where it belongs.
        text: The sentence.
        evidence: What was seen.
        contrary: What it proves wrong: the beginnings of such sentences.
    """

    about: str
    section: str
    text: str
    evidence: str
    contrary: str = ""


def learn(mind: Mind, step: Executed) -> list[Lesson]:
    """Takes in what an action did."""
    before, after, name = step.before, step.after, step.action.name
    ahead = _look_ahead(mind, step)
    is_blow = before.position == after.position or after.harm.get(ahead or "", 0.0) >= FATAL
    ran_into = ahead if is_blow else None
    lessons = _creatures(mind, after, ran_into)
    if name in mind.world.moves:
        lessons += [] if after.refused else _moved(mind, step)
    else:
        lessons += _stayed(mind, before, after) + _used(mind, step)
    return lessons + _night(mind, before, after)


def hurt_by_ground(mind: Mind, seen: Observation) -> float:
    """Returns what the cell itself did: not hunger, not cold, not a creature."""
    return sum(
        amount
        for cause, amount in seen.harm.items()
        if cause not in AMBIENT and not (cause in mind.lore.facts and mind.lore.facts[cause].hunts)
    )


def _moved(mind: Mind, step: Executed) -> list[Lesson]:
    before, after = step.before, step.after
    dx, dy = mind.world.moves[step.action.name]
    there = (before.position[0] + dx, before.position[1] + dy)
    look = before.looks.get(there)
    if look is None:
        return []
    fact = mind.lore.fact(look)
    if look in after.harm and (
        after.position != there or after.harm[look] >= FATAL
    ):  # it hurts whoever runs into it, and lets nobody through
        fact.blocked += 1
        fact.hurt, fact.damage, fact.cause = fact.hurt + 1, fact.damage + after.harm[look], look
        text = lore.AVOID.format(look=look, cause=look, damage=after.harm[look])
        seen = f"ran into it at {there}"
        return [Lesson(look, "tactics", text, seen), Lesson(look, "recipes", lore.BLOCKS.format(look=look), seen)]
    if after.position != there:
        if mind.lore.fact(before.here).hurt:  # in a pit nobody moves, whatever lies before them
            return _stayed(mind, before, after)
        fact.blocked += 1
        is_news = fact.blocked == 1 and not fact.entered
        return [Lesson(look, "recipes", lore.BLOCKS.format(look=look), f"ran into it at {there}")] if is_news else []
    return _entered(mind, look, after)


def _entered(mind: Mind, look: str, after: Observation) -> list[Lesson]:
    fact, damage = mind.lore.fact(look), hurt_by_ground(mind, after)
    if not fact.entered:
        mind.forecaster.meet(damage > 0)
    fact.entered += 1
    if after.gained and damage <= 0:
        use = mind.lore.use("enter", look)
        use.tries, use.gains[after.gained[0]] = use.tries + 1, use.gains[after.gained[0]] + 1
        text = lore.GIVES.format(action="enter", look=look, gain=after.gained[0])
        return [Lesson(look, "recipes", text, f"it did at tick {after.tick}")]
    if damage > 0:
        fact.hurt, fact.damage = fact.hurt + 1, fact.damage + damage
        fact.cause = next(cause for cause in after.harm if cause not in AMBIENT)
        text = lore.AVOID.format(look=look, cause=fact.cause, damage=damage)
        return [Lesson(look, "tactics", text, f"lost {damage:.2f} at tick {after.tick}", f"{look} is harmless")]
    text, seen = lore.HARMLESS.format(look=look), f"entered unharmed at tick {after.tick}"
    return [Lesson(look, "tactics", text, seen, f"Avoid {look}:")] if fact.entered == 1 or fact.hurt else []


def _stayed(mind: Mind, before: Observation, after: Observation) -> list[Lesson]:
    damage = hurt_by_ground(mind, after)
    if damage > 0 and before.here:
        fact = mind.lore.fact(before.here)
        fact.entered, fact.hurt, fact.damage = fact.entered + 1, fact.hurt + 1, fact.damage + damage
        fact.cause = fact.cause or next(cause for cause in after.harm if cause not in AMBIENT)
    return []


def _look_ahead(mind: Mind, step: Executed) -> str | None:
    """Returns what stood where a move led to."""
    if step.action.name not in mind.world.moves:
        return None
    dx, dy = mind.world.moves[step.action.name]
    return step.before.looks.get((step.before.position[0] + dx, step.before.position[1] + dy))


def _creatures(mind: Mind, after: Observation, ran_into: str | None) -> list[Lesson]:
    """A cause that is itself a look in sight is alive: it came to us, unless we ran into it."""
    found = []
    for cause, amount in after.harm.items():
        if cause in (after.here, ran_into) or (cause not in mind.atlas.names and cause not in after.looks.values()):
            continue
        fact = mind.lore.fact(cause)
        if not fact.hunts:
            text = lore.HUNTS.format(look=cause)
            found.append(Lesson(cause, "tactics", text, f"lost {amount:.2f} at tick {after.tick}"))
        fact.hunts, fact.cause = True, cause
        fact.entered, fact.hurt, fact.damage = fact.entered + 1, fact.hurt + 1, fact.damage + amount
    return found


def _used(mind: Mind, step: Executed) -> list[Lesson]:
    before, after, action = step.before, step.after, step.action.name
    if action == "wait":
        return []
    if action not in mind.world.things:
        recipe = mind.workshop.learn(action, before, after)
        return [Lesson(action, "recipes", recipe.text, f"it did at tick {after.tick}")] if recipe else []
    mind.workshop.had.update(after.gained)
    look = step.action.target or thing_before(mind, before)
    if after.refused:
        return _refused(mind, step)
    use = mind.lore.use(action, look)
    use.tries += 1
    lessons = []
    for gain in dict.fromkeys(after.gained):
        use.gains[gain] += 1
        text = lore.GIVES.format(action=action, look=look, gain=gain)
        seen = f"it did at tick {after.tick}"
        lessons.append(Lesson(look, "recipes", text, seen, f"{action} at {look} gives nothing"))
    if not use.gains and use.tries == mind.world.patience:
        text = lore.NOTHING.format(action=action, look=look)
        lessons.append(Lesson(look, "recipes", text, f"{mind.world.patience} tries without"))
    return lessons


def _refused(mind: Mind, step: Executed) -> list[Lesson]:
    """What the world does not do is remembered like what hurts."""
    what, lost = str(step.action), sum(step.after.harm.values())
    fact = mind.lore.fact(what)
    fact.entered, fact.hurt, fact.damage, fact.cause = fact.entered + 1, fact.hurt + 1, fact.damage + lost, "refusal"
    text = lore.AVOID.format(look=what, cause="refusal", damage=lost)
    return [Lesson(what, "tactics", text, step.after.refused[:120])]


def thing_before(mind: Mind, seen: Observation) -> str:
    """Returns the look of what an action is done to."""
    if mind.world.reach == FACING and seen.facing is not None:
        return seen.looks.get(seen.facing, "nothing")
    return seen.here or "nothing"


def _night(mind: Mind, before: Observation, after: Observation) -> list[Lesson]:
    known, lessons = mind.lore, list[Lesson]()
    if before.is_dark and not after.is_dark:
        mind.lit_since = after.tick
    if after.is_dark and not before.is_dark:
        day = after.tick - mind.lit_since
        if known.daylight is None:
            known.daylight = day
            seen = f"night fell at tick {after.tick}"
            lessons.append(Lesson("daylight", "reflections", lore.DAYLIGHT.format(ticks=day), seen))
    if not (before.is_dark and after.is_dark):
        return lessons
    if "cold" in after.harm:
        was_bad = known.is_dark_bad()
        known.dark_hurt, known.dark_ticks = known.dark_hurt + 1, known.dark_ticks + 1
        if known.is_dark_bad() and not was_bad:
            lessons.append(Lesson("dark", "reflections", lore.DARK, f"cold at tick {after.tick}"))
    elif known.is_dark_bad() and after.here:
        known.refuges[after.here] += 1
        if known.refuges[after.here] == PLAIN_NIGHTS:
            text = lore.REFUGE.format(look=after.here)
            lessons.append(Lesson(after.here, "tactics", text, f"no cold there at tick {after.tick}"))
    return lessons


def renewed(mind: Mind, turned: list[tuple[str, str, int]]) -> list[Lesson]:
    """Learns what grows again: something changed back into what gives something.

    Where one faces things creatures walk about, and every cell would seem to grow them.
    """
    if mind.world.reach == FACING:
        return []
    lessons = []
    for before, now, ticks in turned:
        is_source = any(look == now and use.gains for (_, look), use in mind.lore.uses.items())
        if is_source and before not in mind.lore.renewals and before != now and not mind.lore.fact(before).hunts:
            mind.lore.renewals[before] = (now, ticks)
            text = lore.RENEWS.format(look=before, other=now, ticks=ticks)
            lessons.append(Lesson(before, "recipes", text, f"seen after {ticks} ticks"))
    return lessons
