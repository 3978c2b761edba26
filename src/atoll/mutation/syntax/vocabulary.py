"""The words that a rewriter may use beyond those of the source."""

from dataclasses import dataclass
from typing import NamedTuple

from atoll.mutation.syntax.value_kinds import Kind, NameKinds


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What may be written into a program; of the modules only those that its source imports or mentions.

    Attributes:
        constants: Numbers that are often right.
        operators: Arithmetic operators, each as often as it is named.
        numpy: Functions of one argument, by element.
        math: Functions of one number.
        builtins: Functions of Python.
        given: Names that the program finds in its namespace without importing them, as ("np", "numpy").
        parameters: Names of arguments that hold numbers fitted by the judge, and are always subscripted.
        num_parameters: How many numbers such an argument holds.
    """

    constants: tuple[float, ...] = (0, 1, 1, 2, 2, 3, 0.5, 0.5, 0.1, 10)
    operators: tuple[str, ...] = (*"++++----*****///%", "**", "//")
    numpy: tuple[str, ...] = ("sin", "cos", "exp", "log", "sqrt", "abs", "tanh", "square", "sign")
    math: tuple[str, ...] = ("sin", "cos", "exp", "log", "sqrt", "tanh", "floor")
    builtins: tuple[str, ...] = ("abs", "min", "max", "sum", "len", "round")
    predefined_names: tuple[tuple[str, Kind], ...] = ()
    parameters: tuple[str, ...] = ("params", "parameters", "theta", "coefficients", "coeffs")
    num_parameters: int = 10

    def list_functions(self, names: NameKinds) -> "AvailableFunctions":
        """Returns what can be called where these names are known."""
        numpy = [name for name, kind in names.items() if kind == "numpy"][:1]
        math = [name for name, kind in names.items() if kind == "math"][:1]
        elementwise = [f"{alias}.{name}" for alias in numpy for name in self.numpy]
        scalar = [f"{alias}.{name}" for alias in math for name in self.math]
        scalar += [name for name, kind in names.items() if kind == "function" and name in self.math]
        builtin = [name for name in ("abs",) if name in self.builtins]
        return AvailableFunctions(
            scalar=(*elementwise, *scalar, *builtin, *(name for name in ("round",) if name in self.builtins)),
            elementwise=(*elementwise, *builtin),
            reductions=tuple(f"{alias}.{name}" for alias in numpy for name in ("sum", "max", "min", "mean")),
            pairwise=tuple(name for name in ("min", "max") if name in self.builtins),
            elementwise_pairwise=tuple(f"{alias}.{name}" for alias in numpy for name in ("minimum", "maximum")),
            where=f"{numpy[0]}.where" if numpy else None,
            sequence_functions=tuple(name for name in ("len", "sum", "min", "max") if name in self.builtins),
        )


class AvailableFunctions(NamedTuple):
    """What can be called in one source, as dotted names.

    Attributes:
        scalar: Of one number.
        by_element: Of one number or array.
        reducing: From an array to a number.
        paired: Of two numbers.
        paired_by_element: Of two numbers or arrays.
        where: The choice by element, if there is one.
        of_sequence: From a sequence of numbers to a number.
    """

    scalar: tuple[str, ...]
    elementwise: tuple[str, ...]
    reductions: tuple[str, ...]
    pairwise: tuple[str, ...]
    elementwise_pairwise: tuple[str, ...]
    where: str | None
    sequence_functions: tuple[str, ...]


def filter_unshadowed(functions: tuple[str, ...], names: NameKinds) -> list[str]:
    """Returns the functions that no variable hides: `max` may be the name of an argument."""
    return [name for name in functions if "." in name or names.get(name, "function") == "function"]
