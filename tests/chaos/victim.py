"""A run for tests that kill it. Its LLM logs requests, its evaluator logs candidates.

python victim.py STORE RUN LOG_DIR STEPS WORKERS
"""

import os
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from atoll import cluster, control, evaluation, function, journal, llm, store
from tests import fixtures


class Logged:
    """Appends lines to a file that survives its writer."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Model:
    """Responds by position after a short delay, and logs each request first."""

    def __init__(self, log: Logged) -> None:
        self._log = log

    def __call__(self, prompt: str) -> llm.Response:
        ledger = journal.CallCache.current.get()
        assert ledger is not None
        step, call = ledger.position
        self._log.write(step, call)
        time.sleep(Random().random() * 0.004)
        return llm.Response(repr(Random(f"{step}/{call}").gauss(0, 0.3)), "model")


def main(url: str, run: str, log_dir: str, steps: str, workers: str) -> None:
    requests, evaluated = Logged(Path(log_dir) / "requests"), Logged(Path(log_dir) / "judged")

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        evaluated.write(str(skeleton))
        time.sleep(Random().random() * 0.002)
        return fixtures.evaluate(skeleton)

    with store.Store(url) as run_store, run_store.lock_run(run):
        config = cluster.IslandConfig(
            4, 2, fixtures.make_initial(evaluator=evaluate), fixtures.LLMWalker(Model(requests))
        )
        cluster.Evolver(
            cluster.EvolverConfig(
                config,
                num_parallel=int(workers),
                schedule=cluster.RoundRobin(4, migrate_every=10, reset_every=37),
                journal=run_store.journal(run),
                learner=None,
                budget=control.Budget(iterations=int(steps)),
            )
        ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
