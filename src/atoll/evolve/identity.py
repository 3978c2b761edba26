"""Identity of a run by which `resume` finds it, and the `llm` argument: a name, a function or a model object."""

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from atoll import errors, llm, runs, store
from atoll.candidate import content_hash
from atoll.evolve.build import EvolveProblem
from atoll.llm import function_llm
from atoll.llmsr.build import get_evaluator_source
from atoll.programs.gepa.dataset_evaluator import LoopThread
from atoll.runs.summary import find_run


def has_price(value: Any) -> bool:
    """Returns whether an LLM has a price before it is called; a function may report its dollars afterwards."""
    return value is None or isinstance(value, (str, llm.HostedLLM, llm.EnsembleLLM))


def get_name(value: Any) -> str:
    """Returns the name of an LLM, for the store and for messages."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else str(getattr(value, "model_name", "") or "a function")


def make_llm_factory(value: Any, loop: LoopThread) -> runs.LLMFactory | None:
    """Returns a factory for an object that was passed as LLM; None for names, which the session resolves.

    Args:
        loop: Runs coroutines.

    Raises:
        SetupError: The object is not an LLM.
    """
    if value is None or isinstance(value, str):
        return None
    if function_llm.is_model(value):
        return lambda run_config: llm.FunctionLLM(function_llm.make_ask(value, loop.run), name=get_name(value))
    if not callable(value):
        raise errors.SetupError(f"llm is {value!r:.60}. Give the name of an LLM, a function of the prompt, or None.")
    call: Callable[[str], Any] = value
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
        name = str(getattr(value, "__name__", type(value).__name__))
        return lambda run_config: llm.FunctionLLM(lambda prompt: loop.run(call(prompt)), name=name)
    return lambda run_config: value if has_price(value) else llm.FunctionLLM(call)


IDENTITY_KEY, BUDGET_KEY = "evolve", "budget"  # in the configuration of a stored run
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object without a `repr` of its own: another in each process
_TITLES = {"initial": "the initial object", "evaluator": "the evaluator", "data": "the data", "llm": "the LLM"}


def make_identity(problem: EvolveProblem) -> Mapping[str, Any]:
    """Returns what must not change when a run resumes. Budget, workers and time limits may change."""
    options = problem.options
    parts = (options.data, options.validation, options.test)
    instances = [part if part is None or isinstance(part, int | float) else list(part) for part in parts]
    return {
        "kind": problem.representation.kind,
        "initial": content_hash(f"{problem.representation.content}{problem.representation.initial_parameters}"),
        "evaluator": content_hash(get_evaluator_source(problem.evaluator) or problem.evaluator_name),
        "data": _hash_data(instances),
        "llm": get_name(options.llm),
        "objective": options.objective,
        "seed": options.seed,
        "target": options.target,
        "minibatch": options.minibatch,
        "merge": options.merge,
        **({} if options.examples else {"examples": False}),  # runs of earlier versions do not name it
    }


def _hash_data(instances: Any) -> str:
    text = json.dumps(instances, default=lambda value: _ADDRESS.sub("", repr(value)), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def find_resumable(run_store: store.Store, identity: Mapping[str, Any], resume: bool | str) -> str | None:
    """Returns the run to resume; None to start a new one.

    Args:
        resume: True: the newest run with this identity, if there is one; or the id of a run.

    Raises:
        SetupError: The named run does not exist, or belongs to another call of `atoll.evolve`.
    """
    if isinstance(resume, str):
        try:
            run_id = find_run(run_store, resume)
        except errors.NotFound as error:
            raise errors.SetupError(str(error)) from error
        _check_identity(run_id, run_store.get_run(run_id).config.get(IDENTITY_KEY), identity)
        return run_id
    if not resume:
        return None
    matches = (run.id for run in run_store.list_runs() if run.config.get(IDENTITY_KEY) == identity)
    return next(matches, None)


def _check_identity(run_id: str, stored: Any, identity: Mapping[str, Any]) -> None:
    if not isinstance(stored, Mapping):
        raise errors.SetupError(f"Run {run_id} was not started by this kind of call. Continue it with 'atoll resume'.")
    changed = [_TITLES.get(name, name) for name, value in identity.items() if stored.get(name) != value]
    if changed:
        raise errors.SetupError(
            f"Run {run_id} cannot resume: {' and '.join(changed)} changed since it began. Restore that, or start a new "
            "run without resume=."
        )
