"""The verb `join`: one more coordinator of a run."""

from typing import Any

from atoll.cli.run import run as run_run
from atoll.cli.terminal import options


def join(
    run: options.RunArgument,
    workers: run_run.WorkersOption = None,
    changes: run_run.SetOption = None,
    executor: run_run.ExecutorOption = None,
    require_sandbox: run_run.RequireOption = None,
    unsafe: run_run.UnsafeOption = False,
    unsafe_env: run_run.UnsafeEnvOption = None,
    lease_seconds: run_run.LeaseOption = 15.0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
    quiet: run_run.QuietOption = False,
) -> int:
    """Leads a share of the islands of a run that was begun with --shared.

    Any number of coordinators on any machines that reach the store; the task's folder is at the same path on each. One
    that dies is replaced: the others take its islands over as they were stored last. The budget is that of all.

    \b
    Examples:
      atoll run TASK --shared --store postgresql://atoll@db/atoll
      atoll join latest --store postgresql://atoll@db/atoll
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs

    unsafe_options = runs.UnsafeOptions(unsafe, unsafe_env or ())
    layers = run_run.build_option_layers(changes, {"workers": workers}, require_sandbox, executor)
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)

        def make(**extra: Any) -> runs.Coordinator:
            return runs.join(run_store, run_id, layers, allowed=unsafe_options, lease_seconds=lease_seconds, **extra)

        return run_run.run_coordinator(run_store, make, as_json, quiet)
