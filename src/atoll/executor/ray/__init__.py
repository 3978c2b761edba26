"""Evaluations on the nodes of a Ray cluster: the extra `ray`."""

from atoll.executor.ray.fleet import Fleet
from atoll.executor.ray.luggage import Luggage
from atoll.executor.ray.seat import Order
from atoll.executor.ray.tally import Tally
from atoll.executor.ray.terms import Terms

__all__ = ["Fleet", "Luggage", "Order", "Tally", "Terms"]
