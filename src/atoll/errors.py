"""Exceptions of Atoll.

    AtollError
    ├── SetupError            wrong set-up; one sentence says what to do; the command line exits with 2
    │   ├── NotEvaluated      `score()` or `signature()` was called before `evaluate()`
    │   ├── AlreadyEvaluated  `evaluate()` was called twice on one function
    │   ├── LLMRequired       the task changes only with an LLM, and the run has none
    │   └── MissingExtra      an optional package is not installed
    ├── NotFound              a run, candidate, version or blob does not exist
    ├── Conflict              another writer changed it first (compare-and-set), or it is locked
    ├── BudgetUsed            an LLM call does not fit in its budget
    ├── LLMError (in llm)     an LLM gave no response after all retries
    ├── StoreFailed           the store is full, read-only, locked for too long or damaged
    └── RunFailed             a run ended early; all records written until then are saved
        └── JournalFailed     the journal could not be written

Packages define further subclasses of `AtollError`, such as `llm.InvalidResponse` and those in `governed.errors`.

A bad candidate never raises: it is an `Evaluation` with a `failure`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import current_thread, main_thread


class AtollError(Exception):
    """Root of all exceptions that Atoll raises on purpose."""


class SetupError(AtollError):
    """The set-up is wrong; the message says what to change."""


class NotEvaluated(SetupError):
    """The score of a function was read before its evaluation."""


class AlreadyEvaluated(SetupError):
    """A function was evaluated a second time."""


class LLMRequired(SetupError):
    """The task changes only with an LLM, and the run has none."""


class MissingExtra(SetupError):
    """A required optional package is not installed."""


class NotFound(AtollError):
    """The named object does not exist."""


class Conflict(AtollError):
    """Another writer changed the version first, or it is locked."""


class BudgetUsed(AtollError):
    """A call does not fit in the budget of its iteration or run."""


class StoreFailed(AtollError):
    """The store could not be read or written; committed data is intact."""


class RunFailed(AtollError):
    """A run ended early."""


class JournalFailed(RunFailed):
    """The journal could not be written; its records are intact."""


@dataclass(frozen=True, slots=True)
class CaughtException:
    """An exception of untrusted code, as data."""

    error: BaseException

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def capture[T](call: Callable[[], T], reraise: tuple[type[Exception], ...] = (JournalFailed,)) -> T | CaughtException:
    """Runs untrusted code (a mutator, an evaluator, a gate) and returns its exception as data.

    Exceptions in `reraise` pass through. A failed journal is not the candidate's fault.
    """
    try:
        return call()
    except reraise:
        raise
    except BaseException as error:  # includes exit() and CancelledError of untrusted code
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise
        return CaughtException(error)
