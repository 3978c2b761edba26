"""Command `check`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.terminal import options


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
        budget = f" --budget {result.suggest_seconds()}s" if "budget" in facts else ""
        terminal.print_result(f"Next: {terminal.get_program_name()} run {words}{budget}")
    return 0 if result.is_ok else 1
