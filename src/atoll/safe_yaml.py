"""Bounded reading of untrusted YAML. A few lines with aliases can expand beyond any memory."""

from collections.abc import Iterator
from typing import Any

import yaml

from atoll import errors

MAX_CHARACTERS = 1_000_000
MAX_NODES = 20_000  # keys and values; PyYAML reads so many in two seconds
MAX_DEPTH = 50
_MAX_NUMBER_LENGTH = 300  # Python prints integers of at most 4,300 digits; `1:1:1` grows by two digits per part
_MAX_TAG_LENGTH = 200  # PyYAML expands a %TAG before every node
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class InvalidYAML(errors.SetupError):
    """A text is not valid YAML, or too large. The message is the reason, without a full stop."""


def load(text: str, *, allow_aliases: bool = False) -> Any:
    """Returns the value of one YAML document.

    Args:
        text: The document.
        allow_aliases: Allow aliases; each use counts towards the limits.

    Raises:
        InvalidYAML: It is not YAML, too long, too deep, or expands to too much.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidYAML(f"it has over {MAX_CHARACTERS:,} characters")
    try:
        return yaml.load(text, _BoundedLoader if allow_aliases else _NoAliasLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidYAML(" ".join(str(error).split())) from error


class _BoundedLoader(yaml.SafeLoader):
    """Loader with limits on depth and size, checked before values are built."""

    nodes = depth = 0

    def get_single_node(self) -> Any:
        root = super().get_single_node()
        if root is not None:
            _check_size(root)
        return root

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if len(getattr(event, "tag", None) or "") > _MAX_TAG_LENGTH:
            raise yaml.YAMLError(f"a tag has over {_MAX_TAG_LENGTH} characters")
        if self.depth > MAX_DEPTH:
            raise yaml.YAMLError(f"it is over {MAX_DEPTH} levels deep")
        if self.nodes >= MAX_NODES:
            raise yaml.YAMLError(f"it has over {MAX_NODES:,} keys and values")
        self.nodes, self.depth = self.nodes + 1, self.depth + 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        if node.tag in _NUMBER_TAGS and len(text) > _MAX_NUMBER_LENGTH:
            raise yaml.YAMLError(f"{text!r:.40} is a number of over {_MAX_NUMBER_LENGTH} characters")
        return text

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            # PyYAML trusts tags: `!!int ""` raises IndexError.
            content = repr(node.value) if isinstance(node, yaml.ScalarNode) else "its content"
            kind, line = node.tag.rpartition(":")[2], node.start_mark.line + 1
            raise yaml.YAMLError(f"{content:.40} in line {line} is not of type {kind}") from error


class _NoAliasLoader(_BoundedLoader):
    """Loader that also refuses anchors and aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.YAMLError("it has anchors or aliases")
        return super().compose_node(parent, index)


def _check_size(root: yaml.Node) -> None:
    """Refuses nodes that expand beyond the limits, or contain themselves.

    Raises:
        YAMLError: They do.
    """
    nodes, characters, pending = 0, 0, [(root, 0)]
    while pending:
        node, depth = pending.pop()
        nodes += 1
        characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if nodes > MAX_NODES or characters > MAX_CHARACTERS or depth > MAX_DEPTH:
            raise yaml.YAMLError("its aliases expand to too much, or to themselves")
        pending += ((child, depth + 1) for child in _iter_children(node))


def _iter_children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
