"""Finding a run by what somebody typed."""

import re

from atoll import errors, store

LATEST = "latest"


def find_run(run_store: store.Store, name: str) -> str:
    """Returns the id of a run by its id, by the beginning or end of one, `latest`, or `latest~1` for the one before.

    Baselines are never the latest: that is the run that they belong to.

    Raises:
        NotFound: There is none, or several fit.
    """
    stored_runs = run_store.list_runs()
    ids = [run.id for run in stored_runs]
    if name in ids:
        return name
    if not ids:
        raise errors.NotFound(f"There is no run in {run_store.database.name} yet: start one with 'atoll run TASK'.")
    if match := re.fullmatch(rf"{LATEST}(?:~([0-9]{{1,9}}))?", name):
        offset, main_ids = int(match[1] or 0), [run.id for run in stored_runs if "baseline_of" not in run.config]
        if offset < len(main_ids):
            return main_ids[offset]
        raise errors.NotFound(f"There are only {len(main_ids)} runs in {run_store.database.name}, so none is {name}.")
    matches = [run_id for run_id in ids if name and (run_id.startswith(name) or run_id.endswith(name))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise errors.NotFound(f"{len(matches)} runs fit {name!r}, such as {matches[0]} and {matches[1]}: type more of it.")
    raise errors.NotFound(f"There is no run {name} in {run_store.database.name}: 'atoll list' shows those there are.")
