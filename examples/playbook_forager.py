"""A forager that learns from what it eats, with a playbook and nothing else: no model, no key.

    .venv/bin/python -m examples.playbook_forager

It does not know which plants are poisonous. It asks its playbook before it eats, and tells it what came of it; what it
met once it knows, so the second season goes better than the first. Any agent of yours can do the same: ask
`notes.retrieve(state)` before acting, and give `notes.apply(...)` the lesson and the tags after it.
"""

from random import Random

from atoll import playbook, store

COLOURS, PLANTS = ("red", "blue", "white", "spotted"), ("berry", "mushroom", "root")


def season(notes: playbook.PlaybookStore, rng: Random, days: int = 40) -> int:
    """Lives so many days and returns how often it fell ill."""
    ill = 0
    for _ in range(days):
        plant = f"{rng.choice(COLOURS)} {rng.choice(PLANTS)}"
        is_poisonous = plant in ("red berry", "spotted mushroom", "white root", "spotted berry")
        warnings = [item for item in notes.retrieve(f"eat a {plant}") if plant in item.text]
        if warnings:  # it does not eat, and later sees another agent fall ill
            message: playbook.Tag = "helpful" if is_poisonous else "harmful"
            notes.apply([playbook.tag(warning.bullet.id, message) for warning in warnings], "heeded", "forager")
        elif is_poisonous:
            ill += 1
            rule = playbook.add("tactics", f"Never eat a {plant}.", evidence="it made me ill")
            notes.apply([rule], "a lesson", "forager")
    return ill


def main(path: str = "sqlite://") -> tuple[int, int]:
    rng = Random(0)
    with store.Store(path) as opened_store:
        notes = playbook.PlaybookStore(opened_store.versions(), key="playbook/forager")
        first, second = season(notes, rng), season(notes, rng)
        print(f"ill on {first} of the first 40 days and on {second} of the next 40; what it knows:")
        print(notes.current().to_text())
    return first, second


if __name__ == "__main__":
    main()
