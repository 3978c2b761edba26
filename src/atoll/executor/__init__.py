"""Where evaluations run, and how many at once."""

from atoll.executor.executor import Box, Executor, Pending
from atoll.executor.local import Local
from atoll.executor.place import Place, cores
from atoll.executor.ray import Tally, Terms

__all__ = ["Box", "Executor", "Local", "Pending", "Place", "Tally", "Terms", "cores"]
