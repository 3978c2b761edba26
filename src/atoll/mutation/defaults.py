"""Default mutators for a source, with an LLM and without."""

from atoll import function
from atoll.candidate import EMPTY
from atoll.mutation.choice_mutator import ChoiceMutator, find_choices
from atoll.mutation.combined import MixedMutator, MutatorWeights, TunedMutator
from atoll.mutation.syntax import SyntaxMutator, Vocabulary, is_mutable
from atoll.mutation.tuner import Tuner, find_tunables


def make_default_mutator(
    text: str, vocabulary: Vocabulary | None = None, weights: MutatorWeights = EMPTY
) -> MixedMutator:
    """Returns a mix of the mutators that need no LLM.

    They change syntax, tune declared constants (or all constants if none is declared), and choose words from lists.

    Args:
        text: Source of the initial candidate.
        vocabulary: Names and constants for the syntax mutator.
        weights: See `MutatorBandit`.

    Raises:
        SetupError: The declaration of a tunable is invalid, for example its bounds are reversed.
        ValueError: The text is not valid Python, or nothing in it may change.
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
    """Returns an LLM mutator, mixed with a tuner if the source declares tunables.

    Args:
        proposer: Calls the LLM.
        text: Source of the initial candidate, in any language.
        name: Name of the proposer in the meta of its children.
        weights: See `MutatorBandit`.

    Raises:
        SetupError: The declaration of a tunable is invalid.
    """
    tuner: dict[str, function.Proposer] = {"tuner": Tuner()} if _declares_tunables(text) else {}
    return MixedMutator.with_bandit({name: function.as_proposer(proposer), **tuner}, weights)


def _declares_tunables(text: str) -> bool:
    try:
        return bool(find_tunables(text).tunables)
    except ValueError:
        return False
