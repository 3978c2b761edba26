"""Runs ShinkaEvolve on a task of the race; a process of its own, with ShinkaEvolve's packages.

    python bench/race_shinka.py FOLDER MODEL URL CALLS WORKERS SEED      # prints its programs as JSON
    python bench/race_shinka.py --program_path FILE --results_dir DIR    # how ShinkaEvolve evaluates a program

A generation makes one LLM call, as in OpenEvolve: a failed edit is not asked for again. The meta recommendations and
the novelty check, which make further calls, are off.
"""

import argparse
import asyncio
import importlib
import json
import math
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

DATABASE = "programs.sqlite"


def evaluate(program: Path, results: Path) -> None:
    """Writes the files in which ShinkaEvolve expects the result of an evaluation."""
    sys.path.insert(0, str(Path.cwd() / "task"))
    evaluator = importlib.import_module("evaluator")
    result = evaluator.evaluate(str(program))
    metrics = dict(getattr(result, "metrics", result))
    score = float(metrics.pop("combined_score"))
    is_valid = math.isfinite(score) and score > getattr(evaluator, "FAIL", -math.inf)
    text = {"combined_score": score if math.isfinite(score) else 0.0, "public": metrics}
    (results / "metrics.json").write_text(json.dumps(text, default=str))
    (results / "correct.json").write_text(json.dumps({"correct": is_valid, "error": None if is_valid else "failed"}))


def search(folder: Path, model: str, url: str, calls: int, workers: int, seed: int) -> Path:
    """Runs ShinkaEvolve. Returns its database."""
    import yaml
    from shinka import core, database, launch

    random.seed(seed)
    importlib.import_module("numpy").random.seed(seed)
    settings: Any = yaml.safe_load((folder / "config.yaml").read_text())
    output = folder.parent / "shinka"
    evolution = core.EvolutionConfig(
        task_sys_msg=settings["prompt"]["system_message"],
        patch_types=["full", "cross"],  # the tasks ask OpenEvolve for whole programs too
        patch_type_probs=[0.75, 0.25],  # the shares of the two in the defaults
        num_generations=calls + 1,  # the first one is the initial program
        max_patch_resamples=1,
        max_patch_attempts=1,
        max_novelty_attempts=1,
        llm_models=[f"local/{model}@{url}"],
        llm_dynamic_selection=None,
        llm_kwargs={"temperatures": settings["llm"]["temperature"], "max_tokens": settings["llm"]["max_tokens"]},
        meta_rec_interval=None,
        embedding_model=None,
        init_program_path=str(folder / "initial_program.py"),
        results_dir=str(output),
    )
    seconds = int(settings["evaluator"]["timeout"])
    job = launch.LocalJobConfig(
        eval_program_path=str(Path(__file__).resolve()), time=f"00:{seconds // 60:02}:{seconds % 60:02}"
    )
    islands = settings["database"]["num_islands"]
    store = database.DatabaseConfig(db_path=DATABASE, num_islands=islands)
    runner = core.ShinkaEvolveRunner(
        evolution, job, store, verbose=False, max_evaluation_jobs=workers, max_proposal_jobs=workers
    )
    asyncio.run(runner.run_async())
    return next(output.rglob(DATABASE))


def read_programs(path: Path) -> list[dict[str, Any]]:
    """Returns the programs of a database without the copies on other islands."""
    with sqlite3.connect(path) as connection:
        columns = "id, parent_id, generation, combined_score, correct, code"
        rows = connection.execute(f"SELECT {columns} FROM programs ORDER BY generation, timestamp").fetchall()
    first = [row for index, row in enumerate(rows) if row[2] or index == 0]  # every island has the initial program
    return [
        {"id": id, "parent": parent, "iteration": generation, "score": score if is_valid else None, "text": code}
        for id, parent, generation, score, is_valid, code in first
    ]


if __name__ == "__main__":
    if "--program_path" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--program_path", type=Path)
        parser.add_argument("--results_dir", type=Path)
        options = parser.parse_args()
        evaluate(options.program_path, options.results_dir)
    else:
        folder, model, url, *numbers = sys.argv[1:]
        print(json.dumps(read_programs(search(Path(folder), model, url, *map(int, numbers)))))
