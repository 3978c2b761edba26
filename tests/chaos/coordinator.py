"""A coordinator that somebody may kill.

python -m tests.chaos.coordinator STORE FOLDER ITERATIONS [RUN]
"""

import sys
from pathlib import Path

from atoll import config, runs, store

LEASE_SECONDS = 2.0


def main(url: str, folder: str, iterations: str, run: str | None = None) -> None:
    with store.Store(url) as kept:
        if run is None:
            plan = config.load(Path(folder), [{"run": {"iterations": int(iterations)}}])
            coordinator = runs.Coordinator(kept, plan, lease_seconds=LEASE_SECONDS)
            print(coordinator.run_id, flush=True)
        else:
            coordinator = runs.join(kept, run, lease_seconds=LEASE_SECONDS)
        coordinator.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
