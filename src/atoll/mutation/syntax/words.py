"""What the words of Python and numpy tell about kinds."""

from collections.abc import Mapping
from typing import Literal

# An index is the whole number of a loop; a vector an array read by position, as `params[0]`; a mask an array of truths;
# a sequence holds numbers, items hold anything; a power is the number after `**`; numpy, math and function are names to
# call, never values.
type Kind = Literal[
    "index", "integer", "number", "bool", "array", "mask", "vector", "sequence", "items", "text", "other", "power",
    "numpy", "math", "function",
]  # fmt: skip
type NameKinds = Mapping[str, Kind]

# What builtins return, whatever they are given.
BUILTIN_RESULTS: Mapping[str, Kind] = {
    "len": "integer", "int": "integer", "ord": "integer", "hash": "integer", "sum": "number", "float": "number",
    "pow": "number", "range": "sequence", "str": "text", "chr": "text", "repr": "text",
    "bool": "bool", "isinstance": "bool", "any": "bool", "all": "bool",
}  # fmt: skip
MATH_FUNCTIONS = frozenset({
    "sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "floor", "ceil", "fabs", "hypot", "atan",
    "atan2", "asin", "acos",
})  # fmt: skip
# From an array to a number, as functions and as methods.
REDUCTIONS = frozenset({"sum", "max", "min", "mean", "median", "std", "var", "prod", "dot", "amax", "amin", "ptp"})
ARRAY_MAKERS = frozenset({
    "array", "asarray", "zeros", "ones", "full", "arange", "linspace", "zeros_like", "ones_like", "argsort",
})  # fmt: skip
TEXT_METHODS: Mapping[str, Kind] = {
    "lower": "text", "upper": "text", "strip": "text", "lstrip": "text", "rstrip": "text", "replace": "text",
    "join": "text", "title": "text", "capitalize": "text", "zfill": "text", "format": "text", "find": "integer",
    "rfind": "integer", "rindex": "integer", "startswith": "bool", "endswith": "bool", "isdigit": "bool",
    "isalpha": "bool", "isupper": "bool", "islower": "bool", "isspace": "bool", "isalnum": "bool", "split": "items",
}  # fmt: skip
LIST_METHODS: Mapping[str, Kind] = {
    "count": "integer", "index": "integer", "pop": "number", "copy": "sequence", "append": "other", "extend": "other",
    "insert": "other", "sort": "other", "reverse": "other", "remove": "other",
}  # fmt: skip
ARRAY_ATTRIBUTES = frozenset({
    "sum", "mean", "max", "min", "std", "var", "prod", "argmax", "argmin", "shape", "size", "T", "clip", "astype",
})  # fmt: skip
# Builtins by what they take.
SEQUENCE_FUNCTIONS = frozenset({"len", "sum", "sorted", "enumerate", "zip", "reversed", "list", "tuple", "any", "all"})
SCALAR_FUNCTIONS = frozenset({"float", "int", "round", "divmod"})
BUILTINS = frozenset({
    "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "map", "max", "min", "pow",
    "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip
