"""Fits the constants of equation skeletons."""

from atoll.llmsr.fit.data import Data
from atoll.llmsr.fit.expression import Binary, Constant, Expression, Parameter, Unary, Variable, Where, to_source
from atoll.llmsr.fit.fitting import Fitted, fit, predict
from atoll.llmsr.fit.numeric import fit_callable
from atoll.llmsr.fit.parsing import Broken, Equation, Unsupported, parse
from atoll.llmsr.fit.program import Program

__all__ = [
    "Binary",
    "Broken",
    "Constant",
    "Data",
    "Equation",
    "Expression",
    "Fitted",
    "Parameter",
    "Program",
    "Unary",
    "Unsupported",
    "Variable",
    "Where",
    "fit",
    "fit_callable",
    "parse",
    "predict",
    "to_source",
]
