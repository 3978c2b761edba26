"""The verb `atoll shadow`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options, proposing

NEEDED = ("samples", "apply", "score")


def shadow(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The parameter.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The candidate value, as JSON.")],
    file: Annotated[
        Path,
        typer.Option("--with", metavar="FILE.py", help="Has samples(), apply(candidate, value), score(candidate)."),
    ],
    traffic: Annotated[float, typer.Option(metavar="SHARE", help="Of the samples, 0 to 1.")] = 1.0,
    min_effect: Annotated[float, typer.Option(metavar="X", help="The least gain that is worth a change.")] = 0.0,
    guard: Annotated[
        list[str] | None, typer.Option("--guard", metavar="METRIC:MARGIN[:lower]", help="What must not become worse.")
    ] = None,
    alpha: Annotated[float, typer.Option(metavar="X", help="The probability of a wrong verdict.")] = 0.05,
    to_rollout: Annotated[bool, typer.Option("--rollout", help="Let the rollout of the key go on from this.")] = False,
    is_kept: Annotated[bool, typer.Option("--keep", help="Keep the result in the store; --rollout does too.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Runs a candidate value beside the present one, on the same samples, and changes nothing.

    Ends as soon as the verdict is clear: promote, reject, or extend when the samples do not tell. The file is yours and
    runs in this process.

    \b
    Examples:
      atoll shadow risk/penalty 0.4 --with shadow.py
      atoll shadow risk/penalty 0.4 --with shadow.py --guard cost:0.5:lower --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.runs import governed  # with SQLAlchemy and numpy: help need not wait for them

    terms = governed.Terms(min_effect, [governed.guardrail(each) for each in guard or []], alpha)
    with governed.open_parameters(store) as kept:
        if to_rollout:
            governed.check_rollout(kept, key, governed.value(value))
        result = governed.shadowed(kept, key, governed.value(value), _loaded(file), traffic, terms)
        if to_rollout or is_kept:
            governed.keep_shadow(kept, key, governed.value(value), result, proposing.me())
        state = governed.after_shadow(kept, key, result) if to_rollout else None
    if as_json:
        output.print_json({**result.to_data(), "rollout": None if state is None else governed.told(state)})
        return
    _show(result)
    if state is not None:
        output.say(output.out(), f"The rollout of {key} is {state.stage} now: {state.why}.")


def _loaded(file: Path) -> Any:
    import runpy

    if not file.is_file():
        raise errors.SetupError(f"There is no file {file}: it should have {', '.join(NEEDED)}.")
    found = runpy.run_path(str(file))
    if missing := [name for name in NEEDED if not callable(found.get(name))]:
        raise errors.SetupError(f"{file} has no function {', '.join(missing)}.")
    return [found[name] for name in NEEDED]


def _show(result: Any) -> None:
    from atoll.cli import output

    rows = [
        (
            name,
            f"{each.baseline:.4g}",
            f"{each.candidate:.4g}",
            f"{each.difference:+.4g}",
            f"{each.evidence.interval.low:.4g} to {each.evidence.interval.high:.4g}",
            f"{each.adjusted_p:.3g}",
        )
        for name, each in result.dimensions.items()
    ]
    headings = ("metric", "present", "candidate", "difference", "holds at all looks", "p (Holm)")
    if rows:
        output.table(output.out(), headings, rows, right=headings[1:], flexible="metric")
    output.say(output.out(), f"{result.verdict}: {result.reason}.", "bold")
    said = f"{result.sample_size:,} pairs, {result.num_calls:,} scores, {result.num_saved:,} saved"
    output.say(
        output.err(), f"{said}; divergence {result.divergence:.3g}, disagreement {result.disagreement:.3g}.", "dim"
    )
