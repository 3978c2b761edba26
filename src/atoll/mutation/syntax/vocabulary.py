"""Names, operators and constants that edits may add to a source."""

from dataclasses import dataclass
from typing import NamedTuple

from atoll.mutation.syntax.value_kinds import Kind, NameKinds


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names and constants for new code. Functions of numpy and math need a source that imports or mentions the module.

    Attributes:
        constants: Frequent numbers.
        operators: Arithmetic operators; a repeated one is drawn more often.
        numpy: Elementwise functions of one argument.
        math: Functions of one number.
        builtins: Built-in functions of Python.
        predefined_names: Names that exist without an import, such as ("np", "numpy").
        parameters: Names of arguments that hold numbers fitted by the evaluator. They are always subscripted.
        num_parameters: Count of numbers in such an argument.
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
        """Returns the functions that can be called with these names in scope."""
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
    """Functions that one source can call, as dotted names.

    Attributes:
        scalar: Functions of one number.
        elementwise: Functions of one number or array.
        reductions: Functions from an array to a number.
        pairwise: Functions of two numbers.
        elementwise_pairwise: Functions of two numbers or arrays.
        where: `numpy.where`, if numpy is available.
        sequence_functions: Functions from a sequence of numbers to a number.
    """

    scalar: tuple[str, ...]
    elementwise: tuple[str, ...]
    reductions: tuple[str, ...]
    pairwise: tuple[str, ...]
    elementwise_pairwise: tuple[str, ...]
    where: str | None
    sequence_functions: tuple[str, ...]


def filter_unshadowed(functions: tuple[str, ...], names: NameKinds) -> list[str]:
    """Returns the functions that no variable shadows: `max` may be the name of an argument."""
    return [name for name in functions if "." in name or names.get(name, "function") == "function"]
