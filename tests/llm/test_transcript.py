"""A real model's run on the oscillator, repeated from its transcript: Qwen2.5-Coder-1.5B on one thread, 40 proposals.

The transcript was made in 49 minutes, beside other work on two cores, by

    atoll llm serve --port 18431
    atoll run examples/llmsr_oscillator --iterations 40 --workers 1 --seed 1 --set llmsr.num_islands=2 \\
        --llm openai:qwen2.5-coder-1.5b-instruct-q4_k_m@http://127.0.0.1:18431/v1 \\
        --set llm.temperature=0.8 --set llm.max_tokens=300 --set llm.timeout_seconds=240
    atoll export latest --replay -o tests/llm/data/oscillator.jsonl

It is replayed by place, so that a prompt whose words have changed since still gets its reply.
"""

from pathlib import Path

import pytest

from atoll import config, llm, runs, store

ROOT = Path(__file__).resolve().parents[2]
TRANSCRIPT = Path(__file__).parent / "data" / "oscillator.jsonl"
CHANGES = {
    "run": {"llm": f"replay:{TRANSCRIPT}", "iterations": 40, "workers": 1, "seed": 1},
    "llmsr": {"num_islands": 2},
}


def test_what_the_model_said_improves_the_start():
    plan = config.load(ROOT / "examples" / "llmsr_oscillator", [CHANGES])
    with store.Store(":memory:") as run_store:
        session = runs.Session(
            run_store, plan, llm_factory=lambda plan: llm.RecordedLLM(TRANSCRIPT, match_by_position=True)
        )
        with session:
            session.evolver.run()
        summary = runs.summarize(run_store, session.run_id)
    assert summary.totals.cost.calls >= 30
    assert summary.initial_score == pytest.approx(0.96577, abs=1e-4)
    assert summary.best_score is not None
    assert summary.best_score > 1.5
    assert summary.totals.failures < summary.totals.steps / 2
