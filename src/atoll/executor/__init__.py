"""Where evaluations run, and how many at once."""

from atoll.executor.executor import Executor, Pending
from atoll.executor.local import Local
from atoll.executor.place import Place, cores

__all__ = ["Executor", "Local", "Pending", "Place", "cores"]
