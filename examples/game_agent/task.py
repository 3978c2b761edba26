"""Play Pig: roll a die as often as you like and add up; a 1 loses the points of the turn. First to 100 points wins.

The score is the share of games won against a player who holds at 20 points, in percent.
"""

import random
from collections.abc import Callable

GAMES_PER_INPUT = 150
inputs = range(8)  # seeds of the dice: all candidates play the same games


def hold(turn: int, own: int, other: int) -> bool:
    """Returns whether to stop rolling and keep the points of the turn.

    Args:
        turn: Points of this turn so far.
        own: Own points from earlier turns.
        other: Points of the opponent.
    """
    return turn >= 6


def hold_at_20(turn: int, own: int, other: int) -> bool:
    """The usual advice, and the opponent of every game."""
    return turn >= 20 or own + turn >= 100


def play(policies: list[Callable[[int, int, int], bool]], first: int, rng: random.Random) -> int:
    """Returns the index of the winner."""
    points, player = [0, 0], first
    while True:
        turn = 0
        while (roll := rng.randint(1, 6)) > 1:
            turn += roll
            if points[player] + turn >= 100:
                return player
            if policies[player](turn, points[player], points[1 - player]):
                points[player] += turn
                break
        player = 1 - player


def evaluate(hold: Callable[[int, int, int], bool], seed: int) -> float:
    """Returns the share of games won against the opponent, in percent; each player begins half of them."""
    rng = random.Random(seed)
    wins = sum(play([hold, hold_at_20], game % 2, rng) == 0 for game in range(GAMES_PER_INPUT))
    return 100 * wins / GAMES_PER_INPUT
