"""Interface between a system and the front ends: descriptor, settings models, build context and evolver."""

import difflib
import json
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import pydantic

from atoll import cluster, control, errors, executor, function, llm, noise, profiler
from atoll.candidate import EMPTY, JSON
from atoll.evaluation import BlobRef
from atoll.versions import Versions

# For the report of a run whose evaluator runs beside the candidate.
SHARED_SANDBOX_RISK = "in the same sandbox as the candidate, which could forge its own score"


class OnStarted(NamedTuple):
    """A run begins. The payload describes its setup, in reading order."""

    type: Literal["on_started"]
    payload: Mapping[str, JSON]


class AppliedIteration(NamedTuple):
    """An applied iteration and its effect on the run.

    Attributes:
        result: Its parents, children and cost.
        applied_count: Iterations applied so far, with this one.
        usage: Usage of the run so far, with this iteration.
        best_score: Best score of the run before it; None without one.
    """

    result: function.IterationResult
    applied_count: int
    usage: control.Usage
    best_score: float | None


class OnIterationApplied(NamedTuple):
    """An iteration was applied. Recovered iterations are not announced."""

    type: Literal["on_iteration_applied"]
    payload: AppliedIteration


class BlobStore(Protocol):
    """Storage for the bytes of artifacts, e.g. `store.Blobs`."""

    def save_blob(self, data: bytes) -> BlobRef:
        """Stores bytes and returns a reference to them."""

    def load_blob(self, ref: BlobRef) -> bytes:
        """Returns stored bytes.

        Raises:
            NotFound: The store does not have them.
        """


class LiveSettings(NamedTuple):
    """Requests of the users of a run at this moment.

    Attributes:
        settings: Latest value of each setting changed since the run began.
        is_watched: Whether a dashboard shows the run now.
    """

    settings: Mapping[str, JSON] = EMPTY
    is_paused: bool = False
    is_stopped: bool = False
    is_watched: bool = False


class LiveChannel(Protocol):
    """Channel to control and watch a long iteration while it runs.

    The kernel applies commands when it issues an iteration. An iteration of minutes reads them here to react sooner.
    Live settings are not recorded with the iteration: after a crash it runs again with the settings of that time.
    """

    def get_settings(self) -> LiveSettings:
        """Returns the current requests. Must be cheap: called at every tick."""

    def publish(self, iteration: int, index: int, text: str) -> None:
        """Shows a part of an iteration to viewers. The first part of a new iteration replaces the earlier ones."""


class BuildContext(NamedTuple):
    """Inputs of `System.build` that come from the front end.

    Attributes:
        folder: Task folder. File names in settings are relative to it.
        llm: LLM whose responses are stored before they are used; None: evolve without an LLM.
        executor_config: Where and with which limits candidates are evaluated.
        workers: Iterations in parallel.
        seed: Random seed.
        blobs: Storage for artifacts.
        versions: Storage for versioned values; None: keep them in memory.
        get_run_id: Returns the run id. Call it only after the build.
        get_channel: Returns the live channel of the run, or None. Call it only after the build.
        has_dashboard: Whether the dashboard is open during the run.
        budget: Limits of the run.
        first_budget: Limits at the first start of the run; a resume may have extended them.
        target: Score at which the run ends.
        is_deterministic: Whether the run must not depend on measured times.
    """

    folder: Path
    llm: llm.LLM | None
    executor_config: executor.ExecutorConfig
    workers: int
    seed: int
    blobs: BlobStore
    versions: Versions | None = None
    get_run_id: Callable[[], str] = lambda: "run"
    get_channel: Callable[[], LiveChannel | None] = lambda: None
    has_dashboard: bool = False
    budget: control.Budget = control.UNLIMITED
    first_budget: control.Budget = control.UNLIMITED
    target: float | None = None
    is_deterministic: bool = False


class CandidateSummary(NamedTuple):
    """Progress line of a candidate.

    Attributes:
        group: Candidates of one group compete: only a new best of its group gets a line.
        text: The candidate on one line.
    """

    group: str
    text: str


class BuiltSystem(NamedTuple):
    """Result of `System.build`.

    Attributes:
        config: Evolver config without journal, budget, inbox, workers, seed and order, which the front end adds.
        report: Description of the setup for users, by title.
        files: Files of the task. A run resumes only while they are unchanged.
        sandbox: Sandbox level of candidates, as in `sandbox.Sandbox.level`.
        close: Releases the resources of the run; called once, at its end.
        summarize_result: Summarizes a finished run in the system's own terms; None: nothing to add.
        baseline_proposer: Makes one child with one LLM call, for the baselines; None: use the config's own mutator.
        use_profiler: Registers a profiler for the system's own events; None: it has no events.
        summarize_candidate: Makes the progress line of a candidate; None: show the new lines of its text.
        is_free: Apply iterations when they finish, unless the user asks for a deterministic run.
        repeated: Evaluator that repeats noisy evaluations; None: the system evaluates each candidate once.
    """

    config: cluster.EvolverConfig
    report: Mapping[str, JSON]
    files: Sequence[Path]
    sandbox: str
    close: Callable[[], None]
    summarize_result: Callable[[cluster.Evolver], Mapping[str, JSON]] | None = None
    baseline_proposer: function.Proposer | None = None
    use_profiler: Callable[[profiler.ProfilerFn[Any]], profiler.Remove] | None = None
    summarize_candidate: Callable[[function.Function], CandidateSummary] | None = None
    is_free: bool = False
    repeated: noise.RepeatedEvaluator | None = None


# Lists in TOML and JSON.
type Names = Annotated[tuple[str, ...], pydantic.Field(strict=False)]
type Numbers = Annotated[tuple[float, ...], pydantic.Field(strict=False)]


class Settings(pydantic.BaseModel):
    """A section of the configuration. Unknown keys are errors, and every default must work.

    Attributes:
        RENAMED: Former names of keys and their new names. Former names are still accepted.
        OLD_DEFAULTS: Values of newer keys for stored runs that lack them, so that these resume as they began.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {}
    OLD_DEFAULTS: ClassVar[Mapping[str, JSON]] = {}
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def list_keys(section: str, model: type[Settings]) -> Sequence[str]:
    """Returns the keys of a section, `section.key` each."""
    return [f"{section}.{name}" for name in model.model_fields]


def validate_settings[S: Settings](
    section: str, model: type[S], values: Mapping[str, Any], known_keys: Sequence[str] = ()
) -> S:
    """Validates the keys of a section.

    Args:
        section: Name of the section, for messages.
        model: Settings model of the section.
        values: Values by key.
        known_keys: Keys to suggest for an unknown one; by default those of the section.

    Raises:
        SetupError: A key is unknown or a value is wrong. The message names the closest key.
    """
    try:
        return model.model_validate(dict(values))
    except pydantic.ValidationError as error:
        first_error = error.errors()[0]
    path = ".".join((section, *(str(part) for part in first_error["loc"])))
    if first_error["type"] == "extra_forbidden":
        raise errors.SetupError(f"Unknown key {path}{suggest_nearest(path, known_keys or list_keys(section, model))}.")
    message = first_error["msg"].replace("Input should", "it should")
    raise errors.SetupError(f"{path} is {format_value(first_error['input'])}: {message[:1].lower()}{message[1:]}.")


def format_value(value: object) -> str:
    """Returns a value as JSON, at most 60 characters."""
    return json.dumps(value, default=repr)[:60]


def suggest_nearest(name: str, known_names: Iterable[str]) -> str:
    """Returns a hint for an unknown name: the closest known name, else all of them."""
    names = list(known_names)
    same_key_names = [known for known in names if known.partition(".")[2] == name.partition(".")[2] != ""]
    matches = same_key_names or difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if matches:
        return f"; the nearest is {matches[0]}"
    section_names = [known_name for known_name in names if known_name.partition(".")[0] == name.partition(".")[0]]
    return f"; there are {', '.join(section_names or names)}"


type Lazy[T] = T | str  # an object, or its "package.module:name", which is imported when it is needed


@dataclass(frozen=True, slots=True)
class System:
    """Descriptor of a system: everything that the front ends need to know of it.

    An entry point of the group `atoll.systems` names it. Give parts that are slow to import as "package.module:name".

    Attributes:
        name: Value of `system` in `atoll.toml`, and name of the section of its options.
        task: Settings model of `[task]`: what evolves and how it is evaluated.
        options: Settings model of the section `[name]`: how it evolves.
        build: Function (task, options, BuildContext) -> BuiltSystem. Raises SetupError for a wrong task folder.
        discover: Function from a folder to the sections that it implies, or None if the folder is not of this system.
        display: `DisplayFormat` for candidates that are not plain text; None: show them as they are.
        reviews: Module to review and merge candidates, as `atoll.mind.workspace.reviews`.
        episodes: Module to read the episodes of a run, as `atoll.survival.episode_reports`.
        openevolve: Module to read OpenEvolve's files, as `atoll.programs.openevolve`.
        template: Task folder that `atoll init` copies: a path, or the name of one of Atoll's examples.
    """

    name: str
    task: Lazy[type[Settings]]
    options: Lazy[type[Settings]]
    build: Lazy[Callable[[Any, Any, BuildContext], BuiltSystem]]
    discover: Lazy[Callable[[Path], Mapping[str, Any] | None]] | None = None
    display: Lazy["DisplayFormat"] | None = None
    reviews: Lazy[Any] | None = None
    episodes: Lazy[Any] | None = None
    openevolve: Lazy[Any] | None = None
    template: Path | str | None = None

    def load(self, part: str) -> Any:
        """Returns a part by its attribute name; imports it if it is given by name. None: the system has none."""
        value = getattr(self, part)
        return pkgutil.resolve_name(value) if isinstance(value, str) else value


class DisplayFormat(Protocol):
    """Display texts of candidates whose content is not readable."""

    def format_candidate(self, content: str) -> str:
        """Returns the display text of a candidate; invalid content is returned unchanged."""

    def format_one_line(self, content: str) -> str:
        """Returns a candidate in a few words, for a progress line."""


# Ends that a user, an error or a score caused; a coordinator of a shared run also ends when it gives islands away.
_CAUSED_ENDS = ("interrupted", "stopped", "failed", "score", "islands")
_ENDED_WITH = " Ended with: "


def find_outage(reason: str) -> str:
    """Returns the failure that a reason of `SystemEvolver` contains; empty if it contains none."""
    failure, separator, _ = reason.removeprefix("failed: ").partition(_ENDED_WITH)
    return failure if separator else ""


@dataclass(frozen=True, slots=True)
class _ObservedLearner:
    """A learner, or none, whose results are also passed to a function."""

    learner: function.Learner | None
    observe: Callable[[function.IterationResult], None]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return EMPTY if self.learner is None else self.learner.advise(rng)

    def learn(self, result: function.IterationResult) -> None:
        if self.learner is not None:
            self.learner.learn(result)
        self.observe(result)


class SystemEvolver(cluster.Evolver):
    """Evolver that reports its setup when it starts and releases the system's resources when it ends.

    Its profilers also receive every applied iteration and the system's own events.

    Attributes:
        find_failure: Returns why a run that ended by itself failed nevertheless; empty if it did not.
    """

    def __init__(
        self,
        config: cluster.EvolverConfig,
        report: Mapping[str, JSON],
        close: Callable[[], None],
        use_profiler: Callable[[profiler.ProfilerFn[Any]], profiler.Remove] | None = None,
        repeated: noise.RepeatedEvaluator | None = None,
    ) -> None:
        super().__init__(replace(config, learner=_ObservedLearner(config.learner, self._announce_iteration)))
        self._previous_best: float | None = None
        self._report, self._close, self._use_system_profiler, self._repeated = report, close, use_profiler, repeated
        self._start_profilers = profiler.Profilers[OnStarted]()
        self._iteration_profilers = profiler.Profilers[OnIterationApplied](self._events)
        self.find_failure: Callable[[], str] = lambda: ""

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[Any]) -> profiler.Remove:
        removes = [super().use_profiler(profiler_fn), self._start_profilers.use(profiler_fn)]
        removes += [self._iteration_profilers.use(profiler_fn)]
        removes += [self._use_system_profiler(profiler_fn)] if self._use_system_profiler else []
        return lambda: [remove() for remove in removes][-1]

    def _announce_iteration(self, result: function.IterationResult) -> None:
        """Emits an event for an iteration, under the lock; its listeners are called after the commit."""
        scores = (fn.evaluation.score for fn in result.parents if fn.evaluation and fn.evaluation.score is not None)
        best_score = max(scores, default=None) if self._previous_best is None else self._previous_best
        best = self._state.best.evaluation if self._state.best else None  # of this iteration, if it improved
        self._previous_best = best.score if best else best_score
        if self._repeated is not None and best is not None:
            self._repeated.observe(best)
        if self._is_loaded and self._iteration_profilers:
            applied = AppliedIteration(result, self._state.applied_count, replace(self.usage), best_score)
            self._iteration_profilers.emit(OnIterationApplied("on_iteration_applied", applied))

    def _compute_max_evaluations(self) -> int | None:
        share, remaining, repeated = super()._compute_max_evaluations(), self._count_remaining(), self._repeated
        if share is None or remaining is None or repeated is None:
            return share
        repeated.reserve = noise.RESERVE if remaining >= 0 else 0
        return min(share, remaining - noise.RESERVE) if remaining > noise.RESERVE else 0

    def _count_remaining(self) -> int | None:
        """Returns the evaluations beyond those used and reserved to confirm new bests; None: none are needed."""
        limit = self.budget.evaluations if self._repeated is not None and self._repeated.is_noisy else None
        reserved = sum((pending.max_evaluations or 0) + noise.RESERVE for pending in self._in_flight.values())
        return None if limit is None else limit - self.usage.evaluations - reserved

    def _get_stop_reason(self) -> str | None:
        reason, remaining = super()._get_stop_reason(), self._count_remaining()
        if reason or remaining is None or self._in_flight or remaining > noise.RESERVE:
            return reason
        return f"budget of {self.budget.evaluations:,} evaluations used but for {remaining}, too few to confirm a best"

    @property
    def reason(self) -> str:
        """Reason of the stop; empty while the run is running."""
        reason = super().reason
        failure = "" if not reason or reason.startswith(_CAUSED_ENDS) else self.find_failure()
        return f"failed: {failure}{_ENDED_WITH}{reason}" if failure else reason

    @property
    def has_failed(self) -> bool:
        """True if an error ended the run, so that nothing more is stored."""
        return self._failure is not None

    @property
    def budget(self) -> control.Budget:
        """Current budget. Commands may have raised it."""
        return self._control_state.budget

    def start(self) -> None:
        self._start_profilers.emit(OnStarted("on_started", self._report))
        super().start()

    def join(self) -> None:
        try:
            super().join()
        finally:
            if not any(thread.is_alive() for thread in self._threads):
                self._close()
