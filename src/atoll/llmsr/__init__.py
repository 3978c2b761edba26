"""FunSearch and LLM-SR: evolution of one Python function on islands. See README.md in this folder."""

from atoll.llmsr.build import spawn_evolver
from atoll.llmsr.config import EvolverConfig
from atoll.llmsr.laws import Regressor, regress
from atoll.llmsr.mutation_engine import PyMutationEngine
from atoll.llmsr.profiler import Profiler

__all__ = ["EvolverConfig", "Profiler", "PyMutationEngine", "Regressor", "regress", "spawn_evolver"]
