"""The exceptions of Atoll.

    AtollError
    ├── SetupError            the set-up is wrong: one sentence that says what to do; the command line exits 2
    │   ├── NotEvaluated      `score()` or `signature()` was asked before `evaluate()`
    │   ├── AlreadyEvaluated  `evaluate()` was called twice on one function
    │   └── MissingExtra      an optional package is not installed
    ├── NotFound              a run, candidate, version or blob that is not there
    ├── Conflict              somebody else changed it first (compare-and-set), or it is locked
    ├── NoReply (in llm)      a model gave no reply after all retries
    ├── StoreFailed           the store is full, read-only, locked for too long or damaged
    └── RunFailed             a run ended before its time; everything written until then is saved
        └── JournalFailed     the journal could not be written

Others stand beside the parts that raise them, right below `AtollError`: what a model wrote (`llm.Unreadable`), what a
log holds (`governed.logs`), quotas, cancellations and forgeries (`governed.errors` and its neighbours).

A bad candidate is never an exception: it is an `Evaluation` with a `failure`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import current_thread, main_thread


class AtollError(Exception):
    """Root of all exceptions that Atoll raises on purpose."""


class SetupError(AtollError):
    """The set-up is wrong; the message says what to change."""


class NotEvaluated(SetupError):
    """A score was asked of a function that was not evaluated."""


class AlreadyEvaluated(SetupError):
    """A function was evaluated a second time."""


class MissingExtra(SetupError):
    """An optional package is needed and not installed."""


class NotFound(AtollError):
    """What was asked for by name does not exist."""


class Conflict(AtollError):
    """A version moved on, or is locked."""


class StoreFailed(AtollError):
    """The store could not be read or written; what was committed is intact."""


class RunFailed(AtollError):
    """A run ended before its time."""


class JournalFailed(RunFailed):
    """The journal could not be written; what it holds is intact."""


@dataclass(frozen=True, slots=True)
class CaughtException:
    """What foreign code raised, as data."""

    error: BaseException

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def capture[T](call: Callable[[], T], reraise: tuple[type[Exception], ...] = (JournalFailed,)) -> T | CaughtException:
    """Runs foreign code (an engine, a judge, a gate) and returns what it raised as data.

    A journal that cannot be written is no bad candidate: it passes through, and so does what else `passing` names,
    such as a set-up that cannot work.
    """
    try:
        return call()
    except reraise:
        raise
    except BaseException as error:  # the boundary to foreign code: exit() and CancelledError are its own affair too
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise
        return CaughtException(error)
