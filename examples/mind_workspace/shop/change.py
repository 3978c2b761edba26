"""Coins that a customer gets back."""

COINS = (200, 100, 50, 20, 10, 5, 2, 1)


def change(paid, amount):
    """Returns the coins of the change, large ones first."""
    left = paid - amount
    coins = []
    for coin in COINS:
        while left >= coin:
            coins.append(coin)
            left = left - coin
    return coins
