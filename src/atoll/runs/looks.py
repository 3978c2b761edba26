"""What candidates look like to people: as they are, unless their system knows better."""

from atoll import config, store
from atoll.runs import text


def format_candidate(system: str, content: str) -> str:
    """Returns a candidate of a system for people to read."""
    display_format = config.get_display_format(system)
    return content if display_format is None else display_format.format_candidate(content)


def summarize_candidate(system: str, content: str, initial: str, length: int = 200) -> str:
    """Returns on one line what is new in a candidate against the start."""
    display_format = config.get_display_format(system)
    return text.find_new_lines(content, initial, length) if display_format is None else text.format_one_line(display_format.format_one_line(content), length)


def get_system_name(run_store: store.Store, run_id: str) -> str:
    """Returns the name of a run's system; empty where it has none.

    Raises:
        NotFound: There is no such run.
    """
    name: str = run_store.get_run(run_id).config.get("system", "")
    return name
