"""What every system offers to the front: models of its settings, a builder, an evolver that tells its set-up.

Know one and you know all.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import pydantic

from atoll import cluster, control, errors, executor, function, llm, profiler
from atoll.candidate import EMPTY, JSON
from atoll.evaluation import BlobRef
from atoll.versions import Versions

SHARED_SANDBOX_RISK = (
    "in the same jail as the candidate, which could forge its own score"  # said where outputs are not scored outside
)


class OnStarted(NamedTuple):
    """A run begins; the payload says what it was set up with, in the order in which one would read it."""

    type: Literal["on_started"]
    payload: Mapping[str, JSON]


class BlobStore(Protocol):
    """Where the bodies of artifacts are kept: `store.Blobs` is one."""

    def save_blob(self, data: bytes) -> BlobRef:
        """Keeps a body and returns what stands for it."""

    def load_blob(self, ref: BlobRef) -> bytes:
        """Returns a body that is kept.

        Raises:
            NotFound: It is not.
        """


class LiveSettings(NamedTuple):
    """What people outside want of a run at this moment.

    Attributes:
        settings: All that was set since the run began, the newest of each.
        is_watched: Somebody looks at it now.
    """

    settings: Mapping[str, JSON] = EMPTY
    is_paused: bool = False
    is_stopped: bool = False
    is_watched: bool = False


class LiveChannel(Protocol):
    """How a step that takes long is steered and watched while it lasts.

    The kernel obeys when a step is issued; a step of minutes that should obey sooner asks here. What it hears is no
    part of its task: a step that was steered and then cut is done again with what is wished then.
    """

    def get_settings(self) -> LiveSettings:
        """Returns what is wished now. Cheap: called at every turn, however short."""

    def publish(self, iteration: int, index: int, text: str) -> None:
        """Shows a part of a step to whoever watches; what an earlier step showed goes with the first of a new one."""


class BuildContext(NamedTuple):
    """What the front hands to a builder.

    Attributes:
        folder: Where the task is; its files are named relative to it.
        llm: The model, whose replies are stored before they count; None: evolve without one.
        place: Where candidates are judged, and on what terms.
        workers: Steps at work at once.
        seed: All dice come from it.
        bodies: Where artifacts are kept.
        versions: Where values with a history are kept; None: nowhere that lasts.
        run: Tells the run's id, once everything is made and there is one.
        contact: Gives the way to people outside, once there is a run; None: there is none.
        has_dashboard: Whether whoever started the run watches it in a browser.
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


class CandidateSummary(NamedTuple):
    """What people are told of a candidate while a run goes on.

    Attributes:
        rivals: With whom it competes: only who is better than all of them before is worth a line.
        text: What it is, on one line.
    """

    group: str
    text: str


class BuiltSystem(NamedTuple):
    """What a builder made.

    Attributes:
        config: All but journal, budget, inbox, workers, seed and order, which the front adds.
        report: What it was made from, for people: title by title.
        files: The task's own files; a run goes on only while they are as it began with.
        sandbox: The level at which candidates run, as in `sandbox.Sandbox.level`.
        close: Ends what was started for the run; called once, when it is over.
        finish: Sums up what the islands keep when a run has ended, in the system's own terms; None: nothing to add.
        plain: Makes one child with one call of the model and nothing else, for runs that evolution is compared with;
            None: the configuration's own engine does.
        use_profiler: Registers a profiler with what the system itself announces; None: it announces nothing.
        caption: Says what people are told of a candidate on the way; None: what is new in its text.
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


# Lists in TOML and JSON.
type Names = Annotated[tuple[str, ...], pydantic.Field(strict=False)]
type Numbers = Annotated[tuple[float, ...], pydantic.Field(strict=False)]


class Settings(pydantic.BaseModel):
    """A section of the configuration: frozen, every key known, every default runs."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def list_keys(section: str, model: type[Settings]) -> Sequence[str]:
    """Returns the keys of a section, `section.key` each."""
    return [f"{section}.{name}" for name in model.model_fields]


def validate_settings[S: Settings](
    section: str, model: type[S], values: Mapping[str, Any], known_keys: Sequence[str] = ()
) -> S:
    """Makes settings of keys and values.

    Args:
        section: Its name, for messages.
        model: What it must be.
        keys: What was said.
        known: All keys that somebody could have meant; by default those of the section.

    Raises:
        SetupError: A key is unknown or a value is wrong; one sentence, with the nearest right key.
    """
    try:
        return model.model_validate(dict(values))
    except pydantic.ValidationError as error:
        first_error = error.errors()[0]
    path = ".".join((section, *(str(part) for part in first_error["loc"])))
    if first_error["type"] == "extra_forbidden":
        raise errors.SetupError(
            f"There is no key {path}{suggest_nearest(path, known_keys or list_keys(section, model))}."
        )
    message = first_error["msg"].replace("Input should", "it should")
    raise errors.SetupError(f"{path} is {format_value(first_error['input'])}: {message[:1].lower()}{message[1:]}.")


def format_value(value: object) -> str:
    """Returns a value as it would stand in a file, cut where it is long."""
    return json.dumps(value, default=repr)[:60]


def suggest_nearest(name: str, known_names: Iterable[str]) -> str:
    """Says which name was probably meant, or which there are."""
    names = list(known_names)
    same_key_names = [
        known_name for known_name in names if known_name.partition(".")[2] == name.partition(".")[2] != ""
    ]
    matches = same_key_names or difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if matches:
        return f"; the nearest is {matches[0]}"
    section_names = [known_name for known_name in names if known_name.partition(".")[0] == name.partition(".")[0]]
    return f"; there are {', '.join(section_names or names)}"


class System(Protocol):
    """The module `build` of a system.

    Attributes:
        Task: Model of the section `[task]`: what evolves and how it is judged.
        Options: Model of the section named like the system: how it evolves.
    """

    Task: type[Settings]
    Options: type[Settings]

    def discover(self, folder: Path) -> Mapping[str, Any] | None:
        """Returns the sections that a folder implies without an `atoll.toml`, or None if it is not this system's."""

    def build(self, task: Any, options: Any, context: BuildContext) -> BuiltSystem:
        """Makes everything that evolves and judges.

        Raises:
            SetupError: A file is missing or does not hold what it should; the message says what to do.
        """


class DisplayFormat(Protocol):
    """How a system's candidates are shown to people, where their text is written for programs."""

    def format_candidate(self, content: str) -> str:
        """Returns a candidate for people to read; what cannot be read, as it is."""

    def format_one_line(self, content: str) -> str:
        """Returns a candidate in a few words, for a line of progress."""


class SystemEvolver(cluster.Evolver):
    """An evolver that announces its set-up when it starts, and closes what was made for it when it has ended.

    What the system itself announces reaches the same profilers.
    """

    def __init__(
        self,
        config: cluster.EvolverConfig,
        report: Mapping[str, JSON],
        close: Callable[[], None],
        use_profiler: Callable[[profiler.ProfilerFn[Any]], profiler.Remove] | None = None,
    ) -> None:
        super().__init__(config)
        self._report, self._close, self._use_system_profiler = report, close, use_profiler
        self._start_profilers = profiler.Profilers[OnStarted]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[Any]) -> profiler.Remove:
        removes = [super().use_profiler(profiler_fn), self._start_profilers.use(profiler_fn)]
        removes += [self._use_system_profiler(profiler_fn)] if self._use_system_profiler else []
        return lambda: [remove() for remove in removes][-1]

    @property
    def budget(self) -> control.Budget:
        """What the run may use now: it may have been raised from outside."""
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
