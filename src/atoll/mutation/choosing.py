"""Which engines suit a source: with a model and without."""

from atoll import function
from atoll.mutation.mixed import Mixed
from atoll.mutation.refined import Refined
from atoll.mutation.syntax import Syntax, Vocabulary
from atoll.mutation.tuner import Tuner, declared


def without_llm(text: str, vocabulary: Vocabulary | None = None) -> Mixed:
    """Returns the engines that need no model, mixed: rewriting by syntax, and tuning of what is declared, else of all.

    Raises:
        SetupError: A tunable is declared as it cannot be meant, such as one whose bounds are reversed.
        ValueError: It is no Python, or nothing in it may change.
    """
    declared(text)
    syntax = Syntax.fitting(text, vocabulary)
    return Mixed.of({"syntax": syntax, "refined": Refined(syntax), "tuner": Tuner(with_literals=True)})


def mixed_with(engine: function.Proposer | function.MutationEngine, text: str, name: str = "llm") -> Mixed:
    """Returns a model's engine, mixed with a tuner where a source declares tunables.

    Args:
        engine: What asks the model.
        text: What evolution starts from; it may be no Python.
        name: What the engine notes with its children.

    Raises:
        SetupError: A tunable is declared as it cannot be meant.
    """
    tuner: dict[str, function.Proposer] = {"tuner": Tuner()} if _declares(text) else {}
    return Mixed.of({name: function.lift(engine), **tuner})


def _declares(text: str) -> bool:
    try:
        return bool(declared(text).tunables)
    except ValueError:
        return False
