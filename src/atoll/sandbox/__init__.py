"""Where candidates run, apart from everything that they could harm."""

from atoll.sandbox.files import score_file
from atoll.sandbox.judge import SandboxJudge, read_scores
from atoll.sandbox.sandbox import Answer, Job, Limits, MakeJob, Sandbox
from atoll.sandbox.scoring import Scoring
from atoll.sandbox.workers import Workers

__all__ = [
    "Answer",
    "Job",
    "Limits",
    "MakeJob",
    "Sandbox",
    "SandboxJudge",
    "Scoring",
    "Workers",
    "read_scores",
    "score_file",
]
