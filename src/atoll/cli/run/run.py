"""Commands `run`, `resume` and `join`."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.run import survival_files
from atoll.cli.services.dashboard import DashboardOption, serve_during_run
from atoll.cli.terminal import options

if TYPE_CHECKING:
    from atoll import runs
    from atoll import store as stores

IterationsOption = Annotated[
    int | None,
    typer.Option(
        "--iterations", "-i", min=0, metavar="N", help="Number of iterations; 0 evaluates only the initial program."
    ),
]
TargetOption = Annotated[
    float | None, typer.Option("--target", "-t", metavar="SCORE", help="Stop when the best score reaches SCORE.")
]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", metavar="LIMITS", help="Limits: 60s, '$1', 500evals, 100calls, 20000tokens.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, metavar="N", help="Iterations in parallel.")]
RequireOption = Annotated[
    str | None,
    typer.Option("--require-sandbox", metavar="LEVEL", help="Fail if the sandbox is weaker than L1, L2 or L3."),
]
ScoringOption = Annotated[
    str | None,
    typer.Option("--scoring", metavar="MODE", help="Evaluator apart from or together with candidates; default: auto."),
]
ExecutorOption = Annotated[
    str | None, typer.Option("--executor", metavar="KIND", help="Where to evaluate: local or ray.")
]
UnsafeEnvOption = Annotated[
    list[str] | None, typer.Option("--unsafe-env", metavar="NAME", help="Let candidates read this secret variable.")
]
BaselinesOption = Annotated[
    bool, typer.Option("--baselines", help="Also run best-of-N, sequential and no-LLM baselines.")
]
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LogLevelOption = Annotated[
    str | None, typer.Option("--log-level", "-l", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
]
LeaseOption = Annotated[
    float,
    typer.Option(
        "--lease-seconds",
        min=0.5,
        max=86_400,
        metavar="S",
        help="Seconds until another coordinator takes over an island.",
    ),
]
GoalOption = Annotated[
    str | None, typer.Option("--goal", metavar="TEXT", help="Goal for a repository: a text, or a file with it.")
]
TrackOption = Annotated[
    list[str] | None,
    typer.Option("--track", metavar="NAME", help="Log to mlflow:URI, wandb, tensorboard:DIR or otel; repeatable."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]


def run(
    task: Annotated[
        Path, typer.Argument(metavar="TASK", help="Task folder, table, git repository, OpenEvolve folder or program.")
    ],
    evaluator: Annotated[
        Path | None,
        typer.Argument(metavar="[EVALUATOR]", show_default=False, help="Evaluator file, if TASK is a program."),
    ] = None,
    openevolve_config: options.ConfigOption = None,
    goal: GoalOption = None,
    llm: options.LLMOption = None,
    iterations: IterationsOption = None,
    episodes: survival_files.EpisodesOption = None,
    budget: BudgetOption = None,
    target: TargetOption = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Random seed.")] = None,
    workers: WorkersOption = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Same result for any number of workers.")
    ] = False,
    derivative: Annotated[
        str | None,
        typer.Option("--derivative", metavar="COLUMN", help="Find a law of d(target)/d(COLUMN), for tables over time."),
    ] = None,
    overrides: options.SetOption = None,
    executor: ExecutorOption = None,
    require_sandbox: RequireOption = None,
    scoring: ScoringOption = None,
    unsafe: options.UnsafeOption = False,
    unsafe_env: UnsafeEnvOption = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="Start from an OpenEvolve checkpoint.")
    ] = None,
    checkpoint_folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", hidden=True, help="Write an OpenEvolve checkpoint at the end."),
    ] = None,
    api_base: Annotated[
        str | None, typer.Option("--api-base", metavar="URL", hidden=True, help="Address of the OpenEvolve LLMs.")
    ] = None,
    primary_model: Annotated[
        str | None, typer.Option("--primary-model", metavar="NAME", hidden=True, help="Same as --llm openai:NAME.")
    ] = None,
    secondary_model: Annotated[
        str | None, typer.Option("--secondary-model", metavar="NAME", hidden=True, help="LLM for one call in six.")
    ] = None,
    log_level: LogLevelOption = None,
    shared: Annotated[bool, typer.Option("--shared", help="Let other coordinators join the run.")] = False,
    lease_seconds: LeaseOption = 15.0,
    baselines: BaselinesOption = False,
    track: TrackOption = None,
    save_run: survival_files.SaveRunOption = None,
    save_report: survival_files.SaveReportOption = None,
    tick_delay: survival_files.TickDelayOption = None,
    linger: survival_files.LingerOption = 0.0,
    dashboard: DashboardOption = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Evolve a task and save the run in the store.

    Options override atoll.toml. Ctrl-C finishes the running iterations and saves. A second Ctrl-C stops at once.

    \b
    Examples:
      atoll run examples/llmsr_oscillator
      atoll run examples/funsearch_capset --llm openai:gpt-5-mini --budget '$1'
      atoll run my_task --iterations 200 --seed 7 --set llmsr.preset=funsearch
      atoll run my_task --iterations 0 --json
      atoll run my_repository --goal issue.md --llm openai:gpt-5-mini
      atoll run initial_program.py evaluator.py -c config.yaml --llm config
      atoll run measurements.csv --budget 60s
      atoll run growth.csv --derivative t --budget 60s
      atoll run examples/survival --episodes 20 --save-run ticks --set fear=off
      atoll run examples/survival --dashboard --tick-delay 1 --linger 600
    """  # noqa: D301 - \b keeps line breaks
    from atoll import config, runs  # slow imports: SQLAlchemy, pydantic
    from atoll import store as stores
    from atoll.cli.run import session_output
    from atoll.runs import data_export

    num_iterations = episodes if iterations is None else iterations
    run_options: dict[str, Any] = {
        "llm": llm,
        "iterations": num_iterations,
        "budget": budget,
        "target": target,
        "seed": seed,
    }
    run_options |= {"workers": workers, "deterministic": deterministic or None}
    option_layers = [
        *build_option_layers(overrides, run_options, require_sandbox, executor, scoring),
        *([{"survival": {"tick_delay": tick_delay}}] if tick_delay is not None else []),
        *([{"task": {"goal": goal}}] if goal else []),
        *([{"task": {"derivative": derivative}}] if derivative is not None else []),
    ]
    run_config = config.load(task, option_layers, evaluator=evaluator, settings=openevolve_config)
    if checkpoint is not None:
        run_config = config.with_checkpoint(run_config, checkpoint)
    if api_base or primary_model or secondary_model:
        run_config = config.with_openevolve_model(
            run_config,
            primary_model,
            secondary_model,
            api_base,
            has_llm_option=llm not in (None, config.LLM_FROM_CONFIG),
        )
    set_log_level(log_level)
    unsafe_options = runs.UnsafeOptions(unsafe, unsafe_env or ())
    recorder = None
    if save_run or save_report:
        recorder = survival_files.SurvivalRecorder(run_config.system, save_run, save_report)
    if episodes is not None:
        survival_files.check_episodes(run_config.system, episodes, iterations)
    if shared:
        file_options = {"--save-run": save_run, "--save-report": save_report, "--output": checkpoint_folder}
        check_shared_options({**file_options, "--baselines": baselines, "--dashboard": dashboard, "--linger": linger})
        with stores.Store(store) as run_store:
            coordinator_options: dict[str, Any] = {"allowed": unsafe_options, "lease_seconds": lease_seconds}
            return run_coordinator(
                run_store,
                lambda **extra: runs.Coordinator(run_store, run_config, **coordinator_options, **extra),
                as_json,
                quiet,
            )
    with stores.Store(store) as run_store, serve_during_run(run_store) if dashboard else nullcontext():
        has_viewer = dashboard and not as_json  # a program that reads JSON does not watch
        session = runs.Session(run_store, run_config, allowed=unsafe_options, has_dashboard=has_viewer)
        if recorder:
            recorder.attach(session)
        status = session_output.run_session(
            session,
            run_store,
            as_json=as_json,
            quiet=quiet,
            baseline_options=unsafe_options if baselines else None,
            trackers=track or (),
        )
        if checkpoint_folder is not None:
            folder = data_export.export_output_folder(run_store, session.run_id, checkpoint_folder)
            print(f"atoll: Written to {folder}.", file=sys.stderr)
        if recorder:
            recorder.write_report()
        if linger:
            survival_files.linger(linger)
    return status


def run_coordinator(
    run_store: "stores.Store", make_coordinator: "Callable[..., runs.Coordinator]", as_json: bool, quiet: bool
) -> int:
    """Runs a coordinator until the run ends and prints a summary. Returns the exit status."""
    from atoll import runs
    from atoll.cli.run import session_output
    from atoll.cli.terminal import console as terminal

    console, started_at = terminal.get_stderr_console(), time.monotonic()
    coordinator = make_coordinator(say=lambda line: None if quiet else terminal.print_line(console, line))
    if not quiet:
        terminal.print_line(
            console,
            f"Join with: {terminal.get_program_name()} join {coordinator.run_id} --store {run_store.database.name}",
        )
    try:
        with terminal.interrupt_on_sigterm():
            coordinator.run()
    except KeyboardInterrupt:
        terminal.print_line(
            console, "Left the run. Other coordinators take over its islands. Return with 'atoll join'."
        )
        raise
    summary = runs.summarize(run_store, coordinator.run_id)
    if as_json:
        terminal.print_json({**summary.to_data(), "coordinator": coordinator.name})
    elif not quiet:
        session_output.print_summary(terminal.get_stdout_console(), run_store, summary, time.monotonic() - started_at)
    return 1 if summary.status == "failed" else 0


def check_shared_options(option_values: Mapping[str, object]) -> None:
    """Raises SetupError if an option does not work in a shared run."""
    from atoll import errors

    for name, value in option_values.items():
        if value:
            raise errors.SetupError(f"{name} does not work with --shared. Leave out one of them.")


def set_log_level(name: str | None) -> None:
    """Sets the log level of `atoll`; the default is WARNING."""
    from atoll import errors

    if name is None:
        return
    if name.upper() not in LOG_LEVELS:
        raise errors.SetupError(f"Log level {name!r:.40} is unknown. Use one of {', '.join(LOG_LEVELS)}.")
    logging.getLogger("atoll").setLevel(name.upper())


def resume(
    run: options.RunArgument,
    llm: options.LLMOption = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-i", min=0, metavar="N", help="Additional iterations.")
    ] = None,
    episodes: survival_files.EpisodesOption = None,
    budget: Annotated[str | None, typer.Option("--budget", metavar="LIMITS", help="Additional budget.")] = None,
    target: TargetOption = None,
    workers: WorkersOption = None,
    overrides: options.SetOption = None,
    executor: ExecutorOption = None,
    require_sandbox: RequireOption = None,
    scoring: ScoringOption = None,
    unsafe: options.UnsafeOption = False,
    unsafe_env: UnsafeEnvOption = None,
    baselines: BaselinesOption = False,
    track: TrackOption = None,
    linger: survival_files.LingerOption = 0.0,
    dashboard: DashboardOption = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Continue a run; nothing is evaluated or paid for twice.

    The run continues where it ended, was stopped or crashed. With --iterations, --budget or --target the earlier
    limits no longer apply, and iterations and budget count from here.

    \b
    Examples:
      atoll resume latest
      atoll resume 20261115-142233-x7k2 --iterations 500
      atoll resume latest --baselines
      atoll resume latest --dashboard --linger 600
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs
    from atoll.cli.run import session_output

    num_iterations = episodes if iterations is None else iterations
    run_options: dict[str, Any] = {"llm": llm, "iterations": num_iterations, "budget": budget, "target": target}
    run_options["workers"] = workers
    unsafe_options = runs.UnsafeOptions(unsafe, unsafe_env or ())
    with options.open_existing_store(store) as run_store, serve_during_run(run_store) if dashboard else nullcontext():
        option_layers = build_option_layers(overrides, run_options, require_sandbox, executor, scoring)
        has_viewer, run_id = dashboard and not as_json, runs.find_run(run_store, run)
        if episodes is not None:
            survival_files.check_episodes(run_store.get_run(run_id).config.get("system", ""), episodes, iterations)
        session = runs.resume(run_store, run_id, option_layers, allowed=unsafe_options, has_dashboard=has_viewer)
        status = session_output.run_session(
            session,
            run_store,
            as_json=as_json,
            quiet=quiet,
            baseline_options=unsafe_options if baselines else None,
            trackers=track or (),
        )
        if linger:
            survival_files.linger(linger)
    return status


def build_option_layers(
    overrides: list[str] | None,
    run_options: dict[str, Any],
    require: str | None = None,
    executor: str | None = None,
    scoring: str | None = None,
) -> list[Any]:
    """Returns the settings of the command line as layers, later ones over earlier ones: `--set`, then the options."""
    from atoll import config

    run_section = {name: value for name, value in run_options.items() if value is not None}
    option_layers = [{"run": run_section}] if run_section else []
    option_layers += [{"sandbox": {"require": require}}] if require else []
    option_layers += [{"sandbox": {"scoring": scoring}}] if scoring else []
    option_layers += [{"executor": {"kind": executor}}] if executor else []
    return [*(config.parse_set(override) for override in overrides or ()), *option_layers]


def join(
    run: options.RunArgument,
    workers: WorkersOption = None,
    changes: options.SetOption = None,
    executor: ExecutorOption = None,
    require_sandbox: RequireOption = None,
    unsafe: options.UnsafeOption = False,
    unsafe_env: UnsafeEnvOption = None,
    lease_seconds: LeaseOption = 15.0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
    quiet: QuietOption = False,
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
    layers = build_option_layers(changes, {"workers": workers}, require_sandbox, executor)
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)

        def make_coordinator(**extra: Any) -> runs.Coordinator:
            return runs.join(run_store, run_id, layers, allowed=unsafe_options, lease_seconds=lease_seconds, **extra)

        return run_coordinator(run_store, make_coordinator, as_json, quiet)
