"""Command `join`."""

from typing import Any

from atoll.cli.run import run as run_command
from atoll.cli.terminal import options


def join(
    run: options.RunArgument,
    workers: run_command.WorkersOption = None,
    changes: options.SetOption = None,
    executor: run_command.ExecutorOption = None,
    require_sandbox: run_command.RequireOption = None,
    unsafe: options.UnsafeOption = False,
    unsafe_env: run_command.UnsafeEnvOption = None,
    lease_seconds: run_command.LeaseOption = 15.0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
    quiet: run_command.QuietOption = False,
) -> int:
    """Join a shared run as another coordinator.

    Coordinators run on any machines that reach the store. The task folder has the same path on each. If a coordinator
    dies, the others take over its islands from their last stored state. All coordinators share one budget.

    \b
    Examples:
      atoll run TASK --shared --store postgresql://atoll@db/atoll
      atoll join latest --store postgresql://atoll@db/atoll
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs

    unsafe_options = runs.UnsafeOptions(unsafe, unsafe_env or ())
    layers = run_command.build_option_layers(changes, {"workers": workers}, require_sandbox, executor)
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)

        def make_coordinator(**extra: Any) -> runs.Coordinator:
            return runs.join(run_store, run_id, layers, allowed=unsafe_options, lease_seconds=lease_seconds, **extra)

        return run_command.run_coordinator(run_store, make_coordinator, as_json, quiet)
