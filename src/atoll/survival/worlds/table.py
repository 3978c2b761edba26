"""Several agents in one world of the grid: what one eats the others do not find, and beasts choose between them."""

from collections.abc import Mapping, Sequence

from atoll.survival import grid
from atoll.survival.grid.terrain import STEPS
from atoll.survival.worlds.gridworld import observation
from atoll.survival.worlds.world import HERE, Action, Observation, Spot


class Table:
    """The terrain that the seats share.

    A round is one tick: it passes with the first deed, as it does for one who is alone, and not again with the others'.
    """

    def __init__(self, preset: str, family: int, num_seats: int) -> None:
        self.preset, self._family, self._num = grid.find(preset), family, num_seats
        self.seats = [Seat(self, number) for number in range(num_seats)]
        self.lay(0)

    def lay(self, seed: int) -> None:
        """Begins a world."""
        self.terrain = grid.make_terrain(self.preset, seed, self._family, self._num)
        self.bodies = [grid.Body(spot) for spot in self.terrain.starts]
        self.begin_round()

    def begin_round(self) -> None:
        """Lets the next deed take a tick again."""
        self._is_due = True

    def pass_time(self) -> None:
        """Lets the tick of this round pass, unless it has."""
        if self._is_due:
            self.terrain.pass_time([body.spot for body in self.bodies if body.is_alive])
        self._is_due = False

    @property
    def is_over(self) -> bool:
        return self.terrain.tick >= self.preset.max_ticks or not any(body.is_alive for body in self.bodies)


class Seat:
    """The world as one of several meets it: another body looks like `somebody`."""

    def __init__(self, table: Table, number: int) -> None:
        self._table, self._number = table, number
        self.name = f"grid {table.preset.name}, seat {number}"
        self.actions: Sequence[str] = grid.ACTIONS
        self.moves: Mapping[str, Spot] = STEPS
        self.reach = HERE
        self.things: Sequence[str] = ("gather",)
        self.patience = 2
        self.num_cells = table.preset.size**2
        self.is_scored_by_reward = False
        self._options = [Action(name) for name in grid.ACTIONS]

    def reset(self, seed: int) -> Observation:
        return self._told(0.0)

    def act(self, action: Action) -> Observation:
        table = self._table
        body = table.bodies[self._number]
        needs = (body.food, body.water)
        body.act(table.terrain, action.name)
        table.pass_time()
        if body.is_alive:
            body.live(table.terrain)
        return self._told(grid.reward_of(table.terrain, body, needs))

    def _told(self, reward: float) -> Observation:
        table = self._table
        seen = observation(table.terrain, table.bodies[self._number], reward)
        looks: dict[Spot, str] = dict(seen.looks)
        for number, body in enumerate(table.bodies):
            if number != self._number and body.is_alive and body.spot in looks and looks[body.spot] == "ground":
                looks[body.spot] = "somebody"
        return Observation(
            seen.tick,
            seen.position,
            seen.life,
            seen.resources,
            looks,
            seen.here,
            is_dark=seen.is_dark,
            harm=seen.harm,
            gained=seen.gained,
            reward=reward,
            is_over=seen.is_over,
            cause=seen.cause,
        )

    def candidates(self, seen: Observation) -> Sequence[Action]:
        return self._options

    def is_inside(self, spot: Spot) -> bool:
        return self._table.terrain.is_inside(spot)

    def truth(self) -> Mapping[str, bool]:
        hurts = {f"sign {sign}": kind != "nothing" for sign, kind in self._table.terrain.signs.items()}
        return {**hurts, "beast": True}

    def close(self) -> None:
        """Ends nothing: there is nothing open."""
