"""Commands for the first steps: `init`, `demo` and `check`."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer

import atoll
from atoll import errors
from atoll.cli.terminal import options


def get_examples_dir() -> Path:
    """Returns the folder of the examples, in an installed package or in a checkout.

    Raises:
        SetupError: The examples are missing.
    """
    package = Path(atoll.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if folder.is_dir():
            return folder
    raise errors.SetupError(f"Examples not found in {package} or {package.parents[1]}. Install Atoll again.")


def load_example(path: Path) -> ModuleType:
    """Imports an example from its file."""
    spec = importlib.util.spec_from_file_location(f"atoll_example_{path.stem}", path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_EXCLUDED_SUFFIXES = ("__pycache__", ".pyc", ".db", ".db-wal", ".db-shm")


class Template(NamedTuple):
    """A starting point of `init`: its folder among the examples, and the commands to run it."""

    folder: str
    question: str
    commands: Mapping[str, str]


_RUN = {
    "check it": "{program} check {folder}",
    "without an LLM": "{program} run {folder}",
    "with an LLM": "{program} run {folder} --llm openai:MODEL --budget '$1'",
}
_SCRIPT = {"run it": "{python} {folder}/agent.py"}
# What you have -> where to start. The names of systems and examples work too.
KINDS: Mapping[str, Template] = {
    "function": Template("templates/function", "a Python function and a score", _RUN),
    "program": Template("templates/program", "a program and an evaluator", _RUN),
    "prompt": Template(
        "templates/prompt", "a prompt and examples", {"with an LLM": "{python} {folder}/optimize.py openai:MODEL"}
    ),
    "table": Template("llmsr_csv", "a table of numbers (CSV)", {"find a law": "{program} run {folder}"}),
    "plan": Template("mind_rota", "a planning problem", _RUN),
    "agent": Template("templates/agent", "an agent in production", _SCRIPT),
}


def init(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", show_default=False, help="function, program, prompt, table, plan, agent, or an example."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", show_default=False, help="Folder to create.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="CSV", help="Your table, with a header; for KIND table.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Create a task folder for your function, program, table, ...

    Without arguments it asks. The names of systems (llmsr, programs, mind, survival) and of examples work too.

    \b
    Examples:
      atoll init
      atoll init function my_task
      atoll init table wear --from measurements.csv
      atoll init funsearch_capset capset
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console as terminal  # slow import: rich

    if kind is None:
        kind, folder = _ask_kind(), folder or Path(_ask("Folder to create: "))
    if folder is None:
        raise errors.SetupError(f"Name the folder to create: atoll init {kind} DIR.")
    examples_folder = get_examples_dir()
    template = find_template(examples_folder, kind)
    table = _read_table(source, kind) if source is not None else None
    is_own = template.is_relative_to(examples_folder)  # not the template of another package
    name = template.relative_to(examples_folder).as_posix() if is_own else template.name
    files = copy_template(template, folder, name)
    if table is not None:
        files = _write_table(folder, table)
    if as_json:
        terminal.print_json({"folder": str(folder), "example": template.name, "files": [str(file) for file in files]})
        return
    terminal.print_result(f"Created {', '.join(str(file) for file in files)} in {folder}. Read README.md. Next:")
    commands = KINDS[kind].commands if kind in KINDS else _RUN
    width = max(map(len, commands)) + 1
    names = {"program": terminal.get_program_name(), "python": terminal.get_python_name()}
    for purpose, command in commands.items():
        text = command.format(**names, folder=terminal.format_path(folder))
        terminal.print_result(f"  {purpose + ':':{width}}  {text}")


def _ask_kind() -> str:
    if not sys.stdin.isatty():
        raise errors.SetupError(f"Name what you have: atoll init KIND DIR, with KIND one of {', '.join(KINDS)}.")
    typer.echo("What do you have?", err=True)
    for number, template in enumerate(KINDS.values(), 1):
        typer.echo(f"  {number}. {template.question}", err=True)
    reply = _ask(f"Number (1 to {len(KINDS)}): ")
    if not reply.isdecimal() or not 1 <= int(reply) <= len(KINDS):
        raise errors.SetupError(f"{reply!r:.40} is not a number from 1 to {len(KINDS)}.")
    return list(KINDS)[int(reply) - 1]


def _ask(question: str) -> str:
    typer.echo(question, nl=False, err=True)
    return sys.stdin.readline().strip()


def _read_table(source: Path, kind: str) -> bytes:
    if kind != "table":
        raise errors.SetupError(f"--from names a table. It does not work with {kind}: use 'atoll init table DIR'.")
    try:
        table = source.read_bytes()
    except OSError as error:
        raise errors.SetupError(f"{source} cannot be read: {error.strerror}.") from error
    if len(table.split(b"\n", 1)[-1].strip()) == 0:
        raise errors.SetupError(f"{source} has no rows. Write a header and one row of numbers per data point.")
    return table


def _write_table(folder: Path, table: bytes) -> Sequence[Path]:
    """Replaces the example's rows, which do not belong to the user's table."""
    for name in ("test_id.csv", "test_ood.csv", "README.md"):
        (folder / name).unlink()
    (folder / "train.csv").write_bytes(table)
    (folder / "README.md").write_text(
        f"# A law for a table of numbers\n\nThe last column of `train.csv` is the target; `task.target` names "
        f"another.\n\n    atoll run {folder.as_posix()}\n    atoll report latest\n",
        "utf-8",
    )
    return [Path(name) for name in ("README.md", "atoll.toml", "train.csv")]


def find_template(examples_folder: Path, system: str) -> Path:
    """Returns the template folder of a kind, a system or an example.

    Raises:
        SetupError: Neither exists.
    """
    from atoll import config  # with pydantic: help need not wait for it

    task_names = list(iter_tasks(examples_folder))
    templates = {
        descriptor.name: examples_folder / descriptor.template  # an absolute path stays as it is
        for descriptor in config.iter_systems()
        if descriptor.template is not None
    }
    templates |= {kind: examples_folder / template.folder for kind, template in KINDS.items()}
    template = templates.get(system, examples_folder / system)
    if (system in templates or system in task_names) and template.is_dir():
        return template
    kinds = [name for name, template in templates.items() if template.is_dir()]
    available = f"Kinds: {', '.join(kinds)}. Examples: {', '.join(task_names)}."
    raise errors.SetupError(f"Kind or example {system!r} not found. {available if task_names else ''}".rstrip())


def iter_tasks(examples_folder: Path) -> Iterator[str]:
    """Yields the names of the task folders among the examples."""
    for folder in sorted(examples_folder.iterdir()):
        if (folder / "atoll.toml").is_file() or (folder / "initial_program.py").is_file():
            yield folder.name


def copy_template(template: Path, folder: Path, name: str) -> Sequence[Path]:
    """Copies a task folder and returns its files, relative to it. `name` is its path among the examples.

    Raises:
        SetupError: The folder is not empty, or cannot be created.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "is not empty" if folder.is_dir() else "is a file"
        raise errors.SetupError(f"{folder} {problem}. Choose a new folder.")
    from atoll.cli.terminal import console as terminal  # slow import: rich

    relative_paths = (path.relative_to(template) for path in sorted(template.rglob("*")) if path.is_file())
    files = [path for path in relative_paths if not any(part.endswith(_EXCLUDED_SUFFIXES) for part in path.parts)]
    try:
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(template / path, folder / path)
        readme = folder / "README.md"
        if readme.exists():  # its commands name the folder
            own, text = f"examples/{name}", readme.read_text("utf-8")
            readme_text = text.replace(f"python {own}", f"{terminal.get_python_name()} {own}").replace(
                own, folder.as_posix()
            )
            readme.write_text(readme_text, "utf-8")
    except OSError as error:
        raise errors.SetupError(f"{error.filename} cannot be created: {error.strerror}.") from error
    return files


EXAMPLE = "kinetic_energy"


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, metavar="N", help="Stop after N seconds.")] = 60.0,
    iterations: Annotated[
        int, typer.Option("--iterations", "-i", min=1, metavar="N", help="Stop after N iterations.")
    ] = 20_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")] = 1,  # finds the law soon
    workers: Annotated[int, typer.Option("--workers", min=1, metavar="N", help="Iterations in parallel.")] = 2,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Rediscover a formula in about 10 seconds, without an API key.

    Ctrl-C finishes the running iterations and saves. A second Ctrl-C stops at once.

    \b
    Examples:
      atoll demo
      atoll demo --seed 7 --store /tmp/demo.db
      atoll demo --iterations 500 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll import config, runs  # slow imports: SQLAlchemy, rich
    from atoll import store as stores
    from atoll.cli.run import session_output

    folder = get_examples_dir() / EXAMPLE
    run_section = {"iterations": iterations, "seed": seed, "workers": workers, "deterministic": True}
    run_config = config.load(folder, [{"run": run_section}])
    with stores.Store(store) as run_store:
        print_introduction(folder)
        session = runs.Session(run_store, run_config)
        session.time_limit = seconds  # not part of the budget: the same seed gives the same run
        return session_output.run_session(session, run_store, as_json=as_json)


def print_introduction(folder: Path) -> None:
    """Prints the question and the data on stderr."""
    from atoll.cli.terminal import console as terminal

    terminal.print_note("Which formula gives the energy of a moving body from its mass and speed?")
    terminal.print_note("No API key, no LLM: Atoll changes formulas at random and keeps better ones. A score of -1")
    terminal.print_note("means wrong by a factor of 2, -2 by a factor of 4; 0 is exact.\n")
    table: Any = load_example(folder / "task.py").TABLE
    rows = [[name, *(f"{value:,}" for value in numbers)] for name, *numbers in table]
    headings = ["", "mass (kg)", "speed (m/s)", "energy (J)"]
    terminal.print_table(terminal.get_stderr_console(), headings, rows, right_aligned=headings[1:])
    terminal.print_note()


def check(
    task: Annotated[Path, typer.Argument(metavar="TASK", help="Task folder, table, OpenEvolve folder or program.")],
    evaluator: Annotated[
        Path | None,
        typer.Argument(metavar="[EVALUATOR]", show_default=False, help="Evaluator file, if TASK is a program."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, metavar="N", help="Number of evaluations.")] = 5,
    overrides: options.SetOption = None,
    unsafe: options.UnsafeOption = False,
    as_json: options.JsonOption = False,
) -> int:
    """Measure noise and time of a task, and suggest a budget.

    Evaluates the initial candidate several times, without an LLM, and saves nothing.
    The exit status is 1 if the task cannot run as it is.

    \b
    Examples:
      atoll check my_task
      atoll check program.py evaluator.py --repeats 10 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll import config, runs  # slow imports: SQLAlchemy, pydantic
    from atoll.cli.terminal import console as terminal
    from atoll.runs import task_check

    layers: list[Any] = [*(config.parse_set(override) for override in overrides or ()), {"run": {"llm": "none"}}]
    run_config = config.load(task, layers, evaluator=evaluator)
    if run_config.system == "programs":
        run_config = config.load(task, [*layers, {"task": {"repeats": 1}}], evaluator=evaluator)
    result = task_check.check_task(run_config, repeats, allowed=runs.UnsafeOptions(unsafe))
    if as_json:
        terminal.print_json(result.to_data())
        return 0 if result.is_ok else 1
    facts = result.describe()
    width = max(map(len, facts))
    for title, fact in facts.items():
        terminal.print_result(f"{title:{width}}  {fact}")
    if result.is_ok:
        words = " ".join(terminal.format_path(path) for path in (task, evaluator) if path is not None)
        terminal.print_result(f"Next: {terminal.get_program_name()} run {words}{result.suggest_options()}")
    return 0 if result.is_ok else 1
