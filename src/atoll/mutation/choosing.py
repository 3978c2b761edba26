"""Which engines suit a source: with a model and without."""

from atoll import function
from atoll.candidate import NOTHING
from atoll.mutation.choices import Choices, choices
from atoll.mutation.mixed import Mixed, Weights
from atoll.mutation.refined import Refined
from atoll.mutation.syntax import Syntax, Vocabulary, can_rewrite
from atoll.mutation.tuner import Tuner, declared


def without_llm(text: str, vocabulary: Vocabulary | None = None, weights: Weights = NOTHING) -> Mixed:
    """Returns the engines that need no model, mixed: rewriting by syntax, tuning of what is declared, else of all,
    and picking words from lists that the source gives.

    Args:
        text: What evolution starts from.
        vocabulary: What the syntax engine writes with.
        weights: As for `Bandit`.

    Raises:
        SetupError: A tunable is declared as it cannot be meant, such as one whose bounds are reversed.
        ValueError: It is no Python, or nothing in it may change.
    """
    declared(text)
    words: dict[str, function.Proposer] = {"choices": Choices()} if choices(text) else {}
    if words and not can_rewrite(text):
        return Mixed.of(words, weights)
    syntax = Syntax.fitting(text, vocabulary)
    engines: dict[str, function.Proposer] = {
        "syntax": syntax,
        "refined": Refined(syntax),
        "tuner": Tuner(with_literals=True),
        **words,
    }
    return Mixed.of(engines, weights)


def mixed_with(
    engine: function.Proposer | function.MutationEngine, text: str, name: str = "llm", weights: Weights = NOTHING
) -> Mixed:
    """Returns a model's engine, mixed with a tuner where a source declares tunables.

    Args:
        engine: What asks the model.
        text: What evolution starts from; it may be no Python.
        name: What the engine notes with its children.
        weights: As for `Bandit`.

    Raises:
        SetupError: A tunable is declared as it cannot be meant.
    """
    tuner: dict[str, function.Proposer] = {"tuner": Tuner()} if _declares(text) else {}
    return Mixed.of({name: function.lift(engine), **tuner}, weights)


def _declares(text: str) -> bool:
    try:
        return bool(declared(text).tunables)
    except ValueError:
        return False
