"""Fits the constants of equation skeletons."""

from atoll.llmsr.fit.data import Data
from atoll.llmsr.fit.expression import Binary, Constant, Expression, Parameter, Unary, Variable, Where, to_source
from atoll.llmsr.fit.fitting import FitResult, fit, predict
from atoll.llmsr.fit.parsing import Equation, InvalidEquation, UnsupportedEquation, parse
from atoll.llmsr.fit.program import Program

__all__ = [
    "Binary", "Constant", "Data", "Equation", "Expression", "FitResult", "InvalidEquation", "Parameter", "Program",
    "Unary", "UnsupportedEquation", "Variable", "Where", "fit", "parse", "predict", "to_source",
]  # fmt: skip
