"""The front door: four lines evolve a function, a program, a prompt or parameters.

`import atoll` loads this file, so it holds the signature and nothing that takes time: what does the work is imported
when it is first called.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from atoll.evolve.options import EvolveOptions
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
    baselines: bool = False,
    kind: str | None = None,
    sandbox: bool | None = None,
    unsafe: bool = False,
    seconds: float = 30.0,
    minibatch: int = 3,
    merge: bool = True,
) -> Result:
    """Evolves a thing towards a higher score.

    Args:
        thing: A function, a source text, a file (`Path`), a folder (`Path`), a prompt, a dict of texts, or a dict of
            parameters, each `(start, low, high)`, `(start, [choices])` or a number.
        evaluator: Gets a candidate of the kind that was given (of a file or folder its path, of parameters their
            values) and, with `data`, one instance. Returns a number, `(number, feedback)`, a dict of metrics or an
            `Evaluation`; higher is better. A file: an evaluator as OpenEvolve has it. None: the folder's own.
        budget: "60s", "$1", "500evals" or several with commas, or a `control.Budget`; by default 500 evaluations, 200
            with a model. With data every call of the evaluator counts.
        llm: A model's name, a function from prompt to reply, or None: evolve without one.
        objective: What it is for, in words, for the model.
        data: Instances; the score is then the mean over them.
        validation: Instances that choose, or a share of `data`; by default `data` itself.
        test: Instances that are scored once at the end, or a share of `data`.
        target: Stops at this score, which is also the best that an instance can have.
        seed: All dice come from it.
        workers: Steps at work at once.
        store: A file that keeps the run; None: nothing is kept but the result.
        baselines: Whether best-of-N, sequential conditioning and, with a model, a run without it are made too, each
            with the same budget.
        kind: "program" or "text", where a text is not what it seems.
        jail: Whether candidates are judged in a jail; by default all that is code, and no text and no parameters,
            whose evaluators are your own code and may call models.
        unsafe: Whether a model's code may run where the machine has no jail.
        seconds: What judging one candidate may take, in a jail.
        minibatch: Instances that a child of a text is tried on first.
        merge: Whether candidates that are best on different instances are merged.

    Raises:
        SetupError: Something does not fit; one sentence that says what to do.
    """
    from atoll.evolve import runner  # loads SQLAlchemy and more, which `import atoll` must not wait for

    options = EvolveOptions(
        budget, llm, objective, data, validation, test, target, seed, workers, store, baselines, kind, sandbox, unsafe
    )
    return runner.run(initial, evaluator, options._replace(seconds=seconds, minibatch=minibatch, merge=merge))
