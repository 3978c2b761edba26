"""Which engines suit a source: with a model and without."""

from atoll import function
from atoll.candidate import EMPTY
from atoll.mutation.choice_mutator import ChoiceMutator, find_choices
from atoll.mutation.combined import MixedMutator, MutatorWeights, TunedMutator
from atoll.mutation.syntax import SyntaxMutator, Vocabulary, is_mutable
from atoll.mutation.tuner import Tuner, find_tunables


def make_default_mutator(
    text: str, vocabulary: Vocabulary | None = None, weights: MutatorWeights = EMPTY
) -> MixedMutator:
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
    find_tunables(text)
    choice_mutators: dict[str, function.Proposer] = {"choices": ChoiceMutator()} if find_choices(text) else {}
    if choice_mutators and not is_mutable(text):
        return MixedMutator.with_bandit(choice_mutators, weights)
    syntax_mutator = SyntaxMutator.for_source(text, vocabulary)
    mutators: dict[str, function.Proposer] = {
        "syntax": syntax_mutator,
        "refined": TunedMutator(syntax_mutator),
        "tuner": Tuner(with_literals=True),
        **choice_mutators,
    }
    return MixedMutator.with_bandit(mutators, weights)


def add_tuner(
    proposer: function.Proposer | function.MutationEngine, text: str, name: str = "llm", weights: MutatorWeights = EMPTY
) -> MixedMutator:
    """Returns a model's engine, mixed with a tuner where a source declares tunables.

    Args:
        engine: What asks the model.
        text: What evolution starts from; it may be no Python.
        name: What the engine notes with its children.
        weights: As for `Bandit`.

    Raises:
        SetupError: A tunable is declared as it cannot be meant.
    """
    tuner: dict[str, function.Proposer] = {"tuner": Tuner()} if _declares_tunables(text) else {}
    return MixedMutator.with_bandit({name: function.as_proposer(proposer), **tuner}, weights)


def _declares_tunables(text: str) -> bool:
    try:
        return bool(find_tunables(text).tunables)
    except ValueError:
        return False
