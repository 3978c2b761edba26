"""A forager that learns which plants are poisonous, with a playbook and without an LLM.

    .venv/bin/python -m examples.playbook_forager

It reads its playbook before it eats and adds a rule when it falls ill, so it falls ill less often in the second season.
Your agent can do the same: call `notes.retrieve(state)` before acting, and `notes.apply(...)` with lessons and tags
afterwards.
"""

from random import Random

from atoll import playbook, store

COLORS, PLANTS = ("red", "blue", "white", "spotted"), ("berry", "mushroom", "root")


def run_season(notes: playbook.PlaybookStore, rng: Random, days: int = 40) -> int:
    """Runs a season and returns how often the forager fell ill."""
    ill = 0
    for _ in range(days):
        plant = f"{rng.choice(COLORS)} {rng.choice(PLANTS)}"
        is_poisonous = plant in ("red berry", "spotted mushroom", "white root", "spotted berry")
        warnings = [excerpt for excerpt in notes.retrieve(f"eat a {plant}") if plant in excerpt.text]
        if warnings:  # it does not eat, and learns later whether the warning was right
            tag: playbook.Tag = "helpful" if is_poisonous else "harmful"
            notes.apply([playbook.tag(excerpt.bullet.id, tag) for excerpt in warnings], "heeded", "forager")
        elif is_poisonous:
            ill += 1
            rule = playbook.add("tactics", f"Never eat a {plant}.", evidence="it made me ill")
            notes.apply([rule], "a lesson", "forager")
    return ill


def main(path: str = "sqlite://") -> tuple[int, int]:
    rng = Random(0)
    with store.Store(path) as run_store:
        notes = playbook.PlaybookStore(run_store.versions(), key="playbook/forager")
        first, second = run_season(notes, rng), run_season(notes, rng)
        print(f"ill on {first} of the first 40 days and on {second} of the next 40; the playbook:")
        print(notes.current().to_text())
    return first, second


if __name__ == "__main__":
    main()
