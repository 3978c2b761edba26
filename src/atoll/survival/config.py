"""Settings sections `[task]` and `[survival]`."""

from typing import Annotated, Any, Literal

import pydantic

from atoll import system


def _parse_switch(value: object) -> object:
    return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value


type Switch = Annotated[bool, pydantic.BeforeValidator(_parse_switch)]


type LogDetail = Literal["quiet", "normal", "verbose"]
type NotificationLevel = Literal["off", "alerts", "all"]


class Task(system.Settings):
    """Section `[task]`: the world.

    Attributes:
        env: `grid`, `gymnasium:ID`, `minigrid:ID`, `crafter`, `os`, `hybrid`, or `file.py:Name` for a class or function
            that makes your own world or gymnasium environment.
        env_args: Keyword arguments of a gymnasium environment or of your own function.
        describe: `file.py:Name` of a function `describe(observation, info)` that returns an observation in words.
        world: World of the grid: meadow, caldera or tundra.
        family: Seed for the meaning of the grid's signs. Default: the seed of the run.
        playground: Folder inside the task folder in which `os` and `hybrid` may write.
        permission: Highest permission of `os` and `hybrid`: observe, read, write in the playground, or run commands.
        commands: Commands that `permission=run` allows.
        agents: Number of agents in one grid world.
        party: Whether agents share what they learn (`cooperation`) or not (`competition`).
        share_playground: Whether the dashboard shows the playground requests of `os` and `hybrid`.
    """

    env: str = "grid"
    env_args: dict[str, Any] = pydantic.Field(default_factory=dict)
    describe: str = ""
    world: Literal["meadow", "caldera", "tundra"] = "meadow"
    family: int | None = None
    playground: str = "playground"
    permission: Literal["observe", "read", "write", "run"] = "write"
    commands: system.Names = ("ls", "cat", "wc", "head", "date")
    agents: int = pydantic.Field(default=1, ge=1, le=16)
    party: Literal["cooperation", "competition"] = "cooperation"
    share_playground: Switch = False


class Options(system.Settings):
    """Section `[survival]`: the agent.

    Attributes:
        thinker: `native` (rules, no LLM), `llm`, `random`, `wait`, `greedy` or `ceiling`. Default: `llm` if the run has
            an LLM, else `native`. The last two need the grid.
        playbook: Whether lessons pass to the next episode.
        fear: Whether the agent avoids danger.
        curiosity: Whether the agent looks for new things.
        refine_interval: Turns between two grow-and-refine passes; 0: only when the playbook is full.
        playbook_max_sections: Maximum number of dated sections per playbook file.
        playbook_context_limit: Number of bullets in the prompt of a turn.
        playbook_context_chars: Maximum characters per bullet in a prompt.
        playbook_max_tokens: Maximum length of the playbook.
        danger_threshold: Actions with a higher chance of damage are not executed.
        exploration_bonus: Factor of every novelty bonus.
        horizon: Ticks that a damage forecast looks ahead.
        max_turns: Maximum length of an episode.
        tick_delay: Seconds between turns, to follow a run. Default: 20 with an LLM and a dashboard, else 0.
        log_detail: Detail of a turn: `quiet` (numbers only), `normal`, or `verbose` (with the input of the thinker).
        notifications: Notifications to viewers: `all`, `alerts` (danger and blocked actions) or `off`.
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
