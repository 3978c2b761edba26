"""Sandboxes: run untrusted candidates in isolated processes."""

from atoll.sandbox.apart.program_server import ProgramJob
from atoll.sandbox.apart.sandbox import APART_NOTE, ApartSandbox, compare_scoring, find_modules
from atoll.sandbox.apart.stand_in import RemoteFunction
from atoll.sandbox.base import CLOSED_MESSAGE, Job, MakeJob, Sandbox, SandboxResult, run_job
from atoll.sandbox.evaluators import CallJob, OutputEvaluator, SandboxEvaluator, make_score_reader
from atoll.sandbox.levels import LEVELS, Probe, describe_missing, get_level, probe
from atoll.sandbox.limits import Limits
from atoll.sandbox.permissions import DEFAULT_PERMISSIONS, Permissions, permissions_from_source
from atoll.sandbox.process.pool import ProcessPool
from atoll.sandbox.sandboxes import IsolatedSandbox, ProcessSandbox, open
from atoll.sandbox.score_job import FunctionServerJob, ScoreJob, load_function_server, load_score_job

__all__ = [
    "APART_NOTE",
    "CLOSED_MESSAGE",
    "DEFAULT_PERMISSIONS",
    "LEVELS",
    "ApartSandbox",
    "CallJob",
    "FunctionServerJob",
    "IsolatedSandbox",
    "Job",
    "Limits",
    "MakeJob",
    "OutputEvaluator",
    "Permissions",
    "Probe",
    "ProcessPool",
    "ProcessSandbox",
    "ProgramJob",
    "RemoteFunction",
    "Sandbox",
    "SandboxEvaluator",
    "SandboxResult",
    "ScoreJob",
    "compare_scoring",
    "describe_missing",
    "find_modules",
    "get_level",
    "load_function_server",
    "load_score_job",
    "make_score_reader",
    "open",
    "permissions_from_source",
    "probe",
    "run_job",
]
