"""Finding a run by what somebody typed."""

import re

from atoll import errors, store

LATEST = "latest"


def find(kept: store.Store, name: str) -> str:
    """Returns the id of a run by its id, by the beginning or end of one, `latest`, or `latest~1` for the one before.

    Baselines are never the latest: that is the run that they belong to.

    Raises:
        NotFound: There is none, or several fit.
    """
    found_runs = kept.runs()
    ids = [run.id for run in found_runs]
    if name in ids:
        return name
    if not ids:
        raise errors.NotFound(f"There is no run in {kept.database.name} yet: start one with 'atoll run TASK'.")
    if found := re.fullmatch(rf"{LATEST}(?:~([0-9]{{1,9}}))?", name):
        back, own = int(found[1] or 0), [run.id for run in found_runs if "baseline_of" not in run.config]
        if back < len(own):
            return own[back]
        raise errors.NotFound(f"There are only {len(own)} runs in {kept.database.name}, so none is {name}.")
    close = [id for id in ids if name and (id.startswith(name) or id.endswith(name))]
    if len(close) == 1:
        return close[0]
    if close:
        raise errors.NotFound(f"{len(close)} runs fit {name!r}, such as {close[0]} and {close[1]}: type more of it.")
    raise errors.NotFound(f"There is no run {name} in {kept.database.name}: 'atoll list' shows those there are.")
