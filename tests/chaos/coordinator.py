"""A coordinator for tests that kill it.

python -m tests.chaos.coordinator STORE FOLDER ITERATIONS [RUN]
"""

import sys
from pathlib import Path

from atoll import config, runs, store

LEASE_SECONDS = 2.0


def main(url: str, folder: str, iterations: str, run: str | None = None) -> None:
    with store.Store(url) as run_store:
        if run is None:
            plan = config.load(Path(folder), [{"run": {"iterations": int(iterations)}}])
            coordinator = runs.Coordinator(run_store, plan, lease_seconds=LEASE_SECONDS)
            print(coordinator.run_id, flush=True)
        else:
            coordinator = runs.join(run_store, run, lease_seconds=LEASE_SECONDS)
        coordinator.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
