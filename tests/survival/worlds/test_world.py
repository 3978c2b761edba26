"""User-written worlds, and the suite for all worlds."""

import json
from typing import Any

import pytest

from atoll import cli, testing
from atoll.survival.worlds.gridworld import GridWorld

POND = '''\
"""A pond: move left or right. The water is cold, and the right shore is warm."""

from atoll.survival.worlds.world import REACH_HERE, Observation


class Pond:
    name, actions, moves = "a pond", ("left", "right"), {"left": (-1, 0), "right": (1, 0)}
    reach, things = REACH_HERE, ()
    patience, num_cells, is_scored_by_reward = 2, 9, False

    def reset(self, seed):
        self._tick, self._x, self._warmth = 0, 4 + seed % 2, 1.0
        return self._observe()

    def act(self, action):
        self._tick += 1
        self._x = min(8, max(0, self._x + self.moves[action.name][0]))
        self._warmth = 1.0 if self._x == 8 else self._warmth - 0.05
        return self._observe()

    def candidates(self, observation):
        from atoll.survival.worlds.world import Action

        return [Action(name) for name in self.actions]

    def is_inside(self, cell):
        return 0 <= cell[0] <= 8 and cell[1] == 0

    def truth(self):
        return None

    def close(self):
        pass

    def _observe(self):
        life = max(0.0, round(self._warmth, 3))
        is_dead, is_late = life <= 0, self._tick >= 40
        tiles = {(x, 0): "shore" if x == 8 else "water" for x in range(max(0, self._x - 2), min(9, self._x + 3))}
        return Observation(
            self._tick, (self._x, 0), life, {"warmth": life}, tiles, is_over=is_dead or is_late,
            cause="cold" if is_dead else None,
        )
'''


@pytest.fixture
def task(tmp_path):
    (tmp_path / "pond.py").write_text(POND)
    (tmp_path / "atoll.toml").write_text('system = "survival"\n[task]\nenv = "pond.py:Pond"\n[run]\niterations = 5\n')
    return tmp_path


def run(task, capsys, *arguments):
    status = cli.main(["run", str(task), "--store", str(task / "atoll.db"), "--json", *arguments])
    output = capsys.readouterr()
    return status, json.loads(output.out.splitlines()[-1]) if output.out else {}, output.err


def test_agent_runs_in_world_from_task_folder(task, capsys):
    status, result, _ = run(task, capsys)
    assert (status, result["evaluations"]) == (0, 6)
    assert result["mean_ticks"] == 40
    assert result["deaths"] == 0


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("lake.py:Pond", "is not in the task folder"),
        ("../pond.py:Pond", "is not in the task folder"),
        ("pond.py:Lake", "has no 'Lake' that can be called"),
        ("broken.py:Pond", "cannot be loaded: NameError"),
        ("pond", "file.py:Name"),
    ],
)
def test_invalid_world_is_reported(task, capsys, env, message):
    (task / "broken.py").write_text("ponds")
    status, _, err = run(task, capsys, "--set", f"task.env={env}")
    assert status == 2
    assert message in err


class TestGrid(testing.WorldSuite):
    def make(self):
        return GridWorld("meadow", 1)


class TestPond(testing.WorldSuite):
    def make(self):
        namespace: dict[str, Any] = {}
        exec(POND, namespace)
        return namespace["Pond"]()
