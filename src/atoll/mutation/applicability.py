"""Skeletons with a new text, and the error of a mutator that cannot use its parents."""

from atoll import function


def with_text(parent: function.Function, text: str) -> function.AnySkeleton:
    """Returns a copy of the parent's skeleton with a new text."""
    skeleton = parent.skeleton()
    if isinstance(skeleton, function.Rewritable):
        return skeleton.with_text(text)
    new_skeleton: function.AnySkeleton = type(skeleton)(text)  # type: ignore[call-arg]  # takes only its text
    return new_skeleton


class NotApplicable(ValueError):
    """The mutator cannot change these parents. Another mutator may take the iteration."""
