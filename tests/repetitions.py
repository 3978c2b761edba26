"""Numbers of repetitions in random tests: few by default, all of them with `scripts/test --thorough`."""

import os


def choose(few: int, many: int) -> int:
    """Returns the number of repetitions; `ATOLL_THOROUGH` in the environment chooses many."""
    return many if os.environ.get("ATOLL_THOROUGH") else few
