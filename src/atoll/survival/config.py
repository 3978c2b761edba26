"""The sections of the configuration."""

from typing import Annotated, Literal

import pydantic

from atoll import system


def _parse_switch(value: object) -> object:
    return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value


type Switch = Annotated[bool, pydantic.BeforeValidator(_parse_switch)]


type LogDetail = Literal["quiet", "normal", "verbose"]
type NotificationLevel = Literal["off", "alerts", "all"]


class Task(system.Settings):
    """Section `[task]`: where to live.

    Attributes:
        env: `grid`, `minigrid:ID`, `crafter`, `os`, `hybrid`, or `file.py:Name`, a world of your own.
        world: Which of the grid's worlds: meadow, caldera or tundra.
        family: Draws what the grid's signs mean; None: the run's seed.
        playground: The folder, inside the task's, in which `os` and `hybrid` may write.
        permission: How far `os` and `hybrid` may go: observe, read, write in the playground, run commands.
        commands: The commands that they may run then.
        agents: Lives at once in one world of the grid.
        party: Whether several share what they learn (`cooperation`) or not (`competition`).
        share_playground: Whether what `os` and `hybrid` did in the playground is shown on the dashboard.
    """

    env: str = "grid"
    world: Literal["meadow", "caldera", "tundra"] = "meadow"
    family: int | None = None
    playground: str = "playground"
    permission: Literal["observe", "read", "write", "run"] = "write"
    commands: system.Names = ("ls", "cat", "wc", "head", "date")
    agents: int = pydantic.Field(default=1, ge=1, le=16)
    party: Literal["cooperation", "competition"] = "cooperation"
    share_playground: Switch = False


class Options(system.Settings):
    """Section `[survival]`: who lives, and how.

    Attributes:
        thinker: `native` (no model), `llm`, `random`, `wait`, `greedy` or `ceiling`; None: `llm` with a model, else
            `native`. The last two are for the grid.
        playbook: Whether what was learnt goes on to the next life.
        fear: Whether danger is avoided.
        curiosity: Whether what is new is sought.
        refine_interval: Turns between two passes of grow-and-refine; 0: only when the playbook is full.
        playbook_max_sections: Dated sections that each file of the playbook keeps.
        playbook_context_limit: Bullets that a model is shown in a turn.
        playbook_context_chars: Characters of each.
        playbook_max_tokens: The longest playbook.
        danger_threshold: Above this chance of damage an action is not done.
        exploration_bonus: Multiplies every bonus for what is new.
        horizon: Ticks that a forecast of damage looks ahead.
        max_turns: The longest life.
        tick_delay: Seconds between turns, for whoever watches; None: 20 with a model and a dashboard, else 0.
        log_detail: How much of a turn is told: `quiet` (numbers), `normal`, `verbose` (what a thinker was given).
        notifications: Of what a watcher is notified: `all`, `alerts` (danger and broken rules) or `off`.
    """

    thinker: Literal["native", "llm", "random", "wait", "greedy", "ceiling"] | None = None
    playbook: Switch = True
    fear: Switch = True
    curiosity: Switch = True
    refine_interval: int = pydantic.Field(default=0, ge=0)
    playbook_max_sections: int = pydantic.Field(default=6, ge=1)
    playbook_context_limit: int = pydantic.Field(default=3, ge=0)
    playbook_context_chars: int = pydantic.Field(default=400, ge=10)
    playbook_max_tokens: int = pydantic.Field(default=8_000, ge=200)
    danger_threshold: float = pydantic.Field(default=0.7, ge=0, le=1)
    exploration_bonus: float = pydantic.Field(default=1.0, ge=0, le=10)
    horizon: int = pydantic.Field(default=5, ge=1, le=50)
    max_turns: int = pydantic.Field(default=10_000, ge=1)
    tick_delay: float | None = pydantic.Field(default=None, ge=0)
    log_detail: LogDetail = "normal"
    notifications: NotificationLevel = "all"
