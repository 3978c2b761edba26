"""The strongest sandbox that there is."""

from atoll import errors
from atoll.sandbox import levels
from atoll.sandbox.jail import IsolatedSandbox
from atoll.sandbox.limits import Limits
from atoll.sandbox.profiles import DEFAULT_PERMISSIONS, Permissions
from atoll.sandbox.sandbox import MakeJob
from atoll.sandbox.workers import ProcessSandbox

_DEFAULT_LIMITS = Limits()


def open(
    make_job: MakeJob,
    limits: Limits = _DEFAULT_LIMITS,
    num_workers: int = 1,
    *,
    require: str | None = None,
    unsafe: bool = False,
    trusted: bool = False,
    permissions: Permissions = DEFAULT_PERMISSIONS,
    probe_result: levels.Probe | None = None,
) -> IsolatedSandbox | ProcessSandbox:
    """Returns a jail, or workers where this machine can do no better.

    Args:
        make_job: Makes the job, in every worker.
        limits: What one request may use.
        num_workers: How many requests run at once.
        require: The weakest level that will do, `L1` to `L3`.
        unsafe: Whether L0 will do, where candidates are a model's and can do all that the user can.
        trusted: Whether L0 is wanted though there is better: candidates share warm processes, which costs least.
        profile: What the task needs beyond the usual.
        probed: What this machine has; None: it is tried.

    Raises:
        SetupError: The machine has no sandbox as strong as that; the message says what is missing.
    """
    probe_result = levels.probe() if probe_result is None else probe_result
    level = "L0" if trusted else levels.get_level(probe_result)
    if trusted and require is not None:
        raise errors.SetupError(f"A sandbox of level {require} and none at all cannot both be had: choose one.")
    if require is not None and (require not in levels.LEVELS or level < require):
        raise errors.SetupError(levels.describe_refusal(probe_result, require))
    if level != "L0":
        return IsolatedSandbox(make_job, limits, num_workers, permissions=permissions, probe_result=probe_result)
    if not unsafe and trusted:
        raise errors.SetupError(
            "Candidates that a model writes would run with all your rights (sandbox.trusted): allow that with --unsafe."
        )
    if not unsafe:
        raise errors.SetupError(
            "Here candidates could do all that you can (sandbox L0), and a model writes them: allow that with "
            f"--unsafe, or get a jail. {' '.join(levels.describe_missing(probe_result))}"
        )
    return ProcessSandbox(make_job, limits, num_workers, env=permissions.env)
