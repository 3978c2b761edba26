"""`atoll.evolve`: evolves a function, a program, a prompt or parameters with one call.

`import atoll` loads this file, so it has only the signature. The first call imports the rest.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from atoll.evolve.events import EvolveOptions, OnEvent
from atoll.evolve.result import Result

__all__ = ["Result", "evolve"]


def evolve(
    initial: Any,
    evaluator: Callable[..., Any] | PathLike[str] | None = None,
    *,
    budget: object = None,
    llm: str | Callable[[str], Any] | None = None,
    objective: str = "",
    data: Sequence[Any] | None = None,
    validation: Sequence[Any] | float | None = None,
    test: Sequence[Any] | float | None = None,
    target: float | None = None,
    seed: int = 0,
    workers: int = 2,
    store: str | PathLike[str] | None = None,
    resume: bool | str = False,
    on_event: OnEvent | None = None,
    verbose: bool = True,
    baselines: bool = False,
    kind: str | None = None,
    sandbox: bool | None = None,
    unsafe: bool = False,
    seconds: float = 30.0,
    minibatch: int = 3,
    merge: bool = True,
    examples: bool = True,
) -> Result:
    """Evolves an object towards a higher score.

    Args:
        initial: A function, a source text, a file (`Path`), a folder (`Path`), a prompt, a dict of texts, or a dict of
            parameters, each `(initial, low, high)`, `(initial, [choices])` or a number.
        evaluator: Gets a candidate of the same kind as `initial` (for a file or folder its path, for parameters their
            values) and, with `data`, one instance. Returns a number, `(number, feedback)`, a dict of metrics or an
            `Evaluation`; higher is better. A path names an OpenEvolve evaluator; None uses the one of the folder.
        budget: "60s", "$1", "500evals", several with commas, or a `control.Budget`. By default 500 evaluations, 200
            with an LLM. With data every evaluator call counts.
        llm: Name of an LLM, a function or coroutine function from prompt to response, or a model of pydantic-ai; None
            evolves without one.
        objective: The goal in words, for the LLM.
        data: Instances; the score is the mean over them.
        validation: Instances that decide which candidate is better, or a fraction of `data`; by default `data`.
        test: Instances that are scored once at the end, or a fraction of `data`.
        target: Stops at this score, which is also the highest score of an instance.
        seed: Random seed.
        workers: Iterations in parallel, and evaluator calls in parallel in this process.
        store: File that saves the run; None saves nothing but the result.
        resume: True continues the newest run in the store with the same initial object, evaluator, data and settings,
            and starts one if there is none. The id of a run continues that one. Nothing is evaluated or bought again.
            The budget is that of the whole run.
        on_event: Called with `events.Started`, `Progress`, `Improved` and `Ended`, in threads of the run.
        verbose: Whether to show progress on stderr, or in the notebook.
        baselines: Whether to also run best-of-N, sequential conditioning and, with an LLM, a run without it, each
            with the same budget.
        kind: "program" or "text", if a text is not recognized as such.
        sandbox: Whether to evaluate in a sandbox. By default only code: evaluators of texts and parameters are your
            own code and may call LLMs.
        unsafe: Whether LLM-written code may run without a sandbox.
        seconds: Time limit of one evaluation in the sandbox.
        minibatch: Number of instances that a child of a text is evaluated on first.
        merge: Whether to merge candidates that are best on different instances.
        examples: Whether training instances with their answers may become examples in a text. Needs dicts as instances
            and a separate `validation`, which decides whether they help.

    Raises:
        SetupError: An argument is invalid; the message says what to do.
    """
    from atoll.evolve import runner  # slow to import: loads SQLAlchemy

    options = EvolveOptions(
        budget, llm, objective, data, validation, test, target, seed, workers, store, baselines, kind, sandbox, unsafe
    )
    options = options._replace(seconds=seconds, minibatch=minibatch, merge=merge, examples=examples)
    return runner.run(initial, evaluator, options._replace(resume=resume, on_event=on_event, verbose=verbose))
