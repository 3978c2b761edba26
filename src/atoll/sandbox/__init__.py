"""Where candidates run, apart from everything that they could harm."""

from atoll.sandbox.files import load_score_job
from atoll.sandbox.hold import Hold
from atoll.sandbox.jail import IsolatedSandbox
from atoll.sandbox.judge import SandboxEvaluator, make_score_reader
from atoll.sandbox.levels import LEVELS, Probe, get_level, describe_missing, probe
from atoll.sandbox.limits import Limits
from atoll.sandbox.opening import open
from atoll.sandbox.outputs import CallJob, OutputEvaluator
from atoll.sandbox.profiles import DEFAULT_PERMISSIONS, Permissions, permissions_from_source
from atoll.sandbox.sandbox import CLOSED_MESSAGE, SandboxResult, Job, MakeJob, Sandbox, run_job
from atoll.sandbox.scoring import ScoreJob
from atoll.sandbox.slots import ProcessPool
from atoll.sandbox.workers import ProcessSandbox

__all__ = [
    "CLOSED_MESSAGE",
    "LEVELS",
    "DEFAULT_PERMISSIONS",
    "SandboxResult",
    "CallJob",
    "Hold",
    "IsolatedSandbox",
    "Job",
    "Limits",
    "MakeJob",
    "OutputEvaluator",
    "Probe",
    "Permissions",
    "Sandbox",
    "SandboxEvaluator",
    "ScoreJob",
    "ProcessPool",
    "ProcessSandbox",
    "run_job",
    "get_level",
    "describe_missing",
    "open",
    "probe",
    "permissions_from_source",
    "make_score_reader",
    "load_score_job",
]
