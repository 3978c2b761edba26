"""An agent and its approvers, killed at random moments: what was approved happens once, and nothing else ever does."""

import os
import time
from pathlib import Path
from random import Random

import pytest

from atoll.governed.agent import evolver
from atoll.governed.approval import deciders
from tests import processes
from tests.governed.parameters import workers
from tests.repetitions import choose

NUM_KILLS = int(os.environ.get("ATOLL_KILLS", choose(3, 5)))
ROOT = Path(__file__).resolve().parents[2]
LIFE = """\
import random, sys
from atoll import governed
from tests.governed.parameters import workers

rng = random.Random()
with workers.opened(sys.argv[1]) as store:
    print("awake", flush=True)
    agent = governed.Evolver(store, governed.DEFER)
    while True:
        agent.apply_approved()
        proposal = agent.propose("optimize", "Tune", {"key": "speed", "value": rng.random()}, "agent")
        if (lot := rng.random()) < 0.8:
            read = proposal.content_hash
            agent.proposals.decide(proposal.id, "ann", approve=lot < 0.5, reason="by lot", content_hash=read)
        if rng.random() < 0.5:
            agent.apply_approved()
"""


@pytest.mark.chaos
def test_approved_changes_apply_once_after_kill(tmp_path):
    path, rng = tmp_path / "kept.db", Random(os.environ.get("ATOLL_SEED"))
    for _ in range(NUM_KILLS):
        with (tmp_path / "out").open("wb") as out:
            victim = processes.start(["-c", LIFE, str(path)], cwd=ROOT, stdout=out)
        assert processes.wait_for_line(tmp_path / "out", victim) == "awake"
        time.sleep(rng.random() * 0.3)
        victim.kill()
        victim.wait()
    with workers.opened(str(path)) as store:
        agent = evolver.Evolver(store, deciders.DEFER)
        agent.apply_approved()
        proposals = agent.history()
        approved = sorted(item.content["value"] for item in proposals if item.approvals)
        assert {item.status for item in proposals} <= {"pending", "rejected", "applied"}
        assert sorted(version.value for version in store.history("speed")) == approved
        assert len(proposals) > len(approved) > 0
        assert store.verify().seq > len(proposals)
