"""Skeletons of the same kind with another text."""

from atoll import function


def with_text(parent: function.Function, text: str) -> function.AnySkeleton:
    """Returns a skeleton like the parent's with a new text, and with whatever else the parent's one needs."""
    skeleton = parent.skeleton()
    if isinstance(skeleton, function.Rewritable):
        return skeleton.with_text(text)
    new_skeleton: function.AnySkeleton = type(skeleton)(text)  # type: ignore[call-arg]  # a plain one is made of its text
    return new_skeleton


class NotApplicable(ValueError):
    """These parents are nothing for this engine: another one may take the step."""
