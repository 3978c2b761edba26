"""What candidates look like to people: as they are, unless their system knows better."""

from atoll import config, store
from atoll.runs import text


def shown(system: str, content: str) -> str:
    """Returns a candidate of a system for people to read."""
    look = config.look(system)
    return content if look is None else look.shown(content)


def news(system: str, content: str, start: str, length: int = 200) -> str:
    """Returns on one line what is new in a candidate against the start."""
    look = config.look(system)
    return text.news(content, start, length) if look is None else text.gist(look.gist(content), length)


def system_of(kept: store.Store, run: str) -> str:
    """Returns the name of a run's system; empty where it has none.

    Raises:
        NotFound: There is no such run.
    """
    name: str = kept.run(run).config.get("system", "")
    return name
