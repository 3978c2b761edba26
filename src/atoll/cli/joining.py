"""The verb `join`: one more coordinator of a run."""

from typing import Any

from atoll.cli import leading, options, running


def join(
    run: options.RunArgument,
    workers: running.WorkersOption = None,
    changes: running.SetOption = None,
    executor: running.ExecutorOption = None,
    require_sandbox: running.RequireOption = None,
    unsafe: running.UnsafeOption = False,
    unsafe_env: running.UnsafeEnvOption = None,
    lease_seconds: leading.LeaseOption = 15.0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
    quiet: running.QuietOption = False,
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
    layers = running.build_option_layers(changes, {"workers": workers}, require_sandbox, executor)
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)

        def make(**extra: Any) -> runs.Coordinator:
            return runs.join(run_store, run_id, layers, allowed=unsafe_options, lease_seconds=lease_seconds, **extra)

        return leading.run_coordinator(run_store, make, as_json, quiet)
