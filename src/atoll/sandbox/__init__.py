"""Where candidates run, apart from everything that they could harm."""

from atoll.sandbox.files import score_file
from atoll.sandbox.hold import Hold
from atoll.sandbox.jail import Jail
from atoll.sandbox.judge import SandboxJudge, read_scores
from atoll.sandbox.levels import LEVELS, Probe, level_of, missing, probe
from atoll.sandbox.limits import Limits
from atoll.sandbox.opening import open
from atoll.sandbox.outputs import Calling, OutputsJudge
from atoll.sandbox.profiles import NARROW, Profile, profile_of
from atoll.sandbox.sandbox import CLOSED, Answer, Job, MakeJob, Sandbox, ask
from atoll.sandbox.scoring import Scoring
from atoll.sandbox.slots import Slots
from atoll.sandbox.workers import Workers

__all__ = [
    "CLOSED",
    "LEVELS",
    "NARROW",
    "Answer",
    "Calling",
    "Hold",
    "Jail",
    "Job",
    "Limits",
    "MakeJob",
    "OutputsJudge",
    "Probe",
    "Profile",
    "Sandbox",
    "SandboxJudge",
    "Scoring",
    "Slots",
    "Workers",
    "ask",
    "level_of",
    "missing",
    "open",
    "probe",
    "profile_of",
    "read_scores",
    "score_file",
]
