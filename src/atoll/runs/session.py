"""Session: builds the parts of a run, locks the run in the store, and runs it until it ends. Also `resume`."""

import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

from atoll import cluster, config, control, errors, executor, journal, llm, store, system
from atoll.candidate import EMPTY, normalize_json
from atoll.evaluation import ZERO_COST, Cost
from atoll.runs import executor_config, limits, run_llm, search_methods
from atoll.runs.live_channel import StoreLiveChannel
from atoll.runs.run_llm import LLMFactory
from atoll.runs.summary import compute_totals
from atoll.store.versions import ledger

POLL_SECONDS = 0.02
ALL_ISLANDS = -1  # island of a record that concerns the whole run

type BuildSystem = Callable[[system.BuildContext], system.BuiltSystem]


class IterationOrder(NamedTuple):
    """Order of the iterations: by number or by completion time; and how many are in flight."""

    is_ordered: bool
    window: int


class Session:
    """A run that this process writes. Use it in a `with` block.

    The constructor makes one part after the other. It creates a new run only after the system was built, and closes
    everything if a later part fails. Shared runs replace `_choose_order`, `_lock_run`, `_open_journal` and
    `_make_evolver`.

    Args:
        run_id: The run to resume; None creates a new one.
        budget: Total budget; by default that of the configuration.
        llm_factory: Makes the LLM; by default the one that the configuration names.
        allowed: Safety checks that the user waives for this start.
        extra_config: Stored with a new run, e.g. the run that it is a baseline of.
        has_dashboard: Whether the user watches the run in a browser.
        build_system: Builds the system; by default the builder that the configuration names.
        needs_price: Whether a budget in dollars needs a known price. False: the LLM reports the dollars of each call.

    Attributes:
        run_config: The configuration, with the values of its parameters.
        initial_program: Text of the initial candidate.
        summarize_candidate: Describes a candidate for progress output; None to show its new lines.
        time_limit: Time limit of an ordered run that resumes with a budget in seconds. Otherwise None: the evolver of
            an unordered run checks the seconds itself.
        evolver: Ready to start.
        sandbox: Sandbox level of the candidates.

    Raises:
        SetupError: The configuration cannot be carried out.
        NotFound: The run does not exist.
        Conflict: Another process writes the run.
    """

    def __init__(
        self,
        run_store: store.Store,
        run_config: config.RunConfig,
        *,
        run_id: str | None = None,
        budget: control.Budget | None = None,
        llm_factory: LLMFactory | None = None,
        allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
        extra_config: Mapping[str, str] = EMPTY,
        has_dashboard: bool = False,
        build_system: BuildSystem | None = None,
        needs_price: bool = True,
    ) -> None:
        self._store = run_store
        self.run_config = run_config = _bind_parameters(run_config, run_store)
        self.budget = budget or run_config.get_budget()

        base_llm: llm.LLM | None = None
        if llm_factory is not None:
            base_llm = llm_factory(run_config)
        elif run_config.run.llm != "none":
            if run_id is None:
                self.run_config = run_config = run_llm.fix_recorded_run(run_config, run_store)
            base_llm = run_llm.make_llm(run_config, run_store, self.budget)
        has_llm = base_llm is not None
        limits.check_budget(self.budget, has_llm=has_llm)
        self._run_llm: run_llm.RunLLM | None = None
        if base_llm is not None:
            self._run_llm = run_llm.make_run_llm(
                base_llm, run_config, self.budget, run_store, run_id, needs_price=needs_price
            )

        self._executor_config = executor_config.make_executor_config(run_config, allowed, has_llm=has_llm)
        context = self._make_context(run_id, has_dashboard)
        built_system = _build(run_config, context, build_system, base_llm)
        self._close = built_system.close
        self.sandbox = built_system.sandbox
        self.summarize_candidate = built_system.summarize_candidate
        self._summarize_result = built_system.summarize_result
        self.initial_program = str(built_system.config.island_config.initial_fn.skeleton())

        with ExitStack() as on_error:
            on_error.callback(self._close)
            self._order = self._choose_order(run_id, built_system)
            self.run_id = self._open_run(run_id, built_system.files, extra_config)
            self._run_lock = self._lock_run(built_system)
            on_error.callback(self._run_lock.release)

            self.time_limit = self.budget.seconds if self._order.is_ordered else None
            run_journal = self._open_journal()
            evolver_config = self._complete_config(built_system.config, run_journal)
            self.evolver = self._make_evolver(
                evolver_config, {**built_system.report, **self._make_report()}, built_system
            )
            if self._run_llm is not None:
                num_islands = evolver_config.island_config.num_islands
                self._run_llm.connect(self.evolver, num_islands, lambda: self.evolver.budget, run_journal)
            run_journal.write(journal.Record(journal.STARTED, 0, ALL_ISLANDS, self._describe_start()))
            on_error.pop_all()

    def _make_context(self, run_id: str | None, has_dashboard: bool) -> system.BuildContext:
        settings, stored_config = self.run_config.run, self._store.get_run(run_id).config if run_id else None
        return system.BuildContext(
            folder=self.run_config.folder,
            llm=self._run_llm.journaled_llm if self._run_llm else None,
            executor_config=self._executor_config,
            workers=settings.workers,
            seed=settings.seed,
            blobs=self._store.blobs(),
            versions=self._store.versions(),
            get_run_id=lambda: self.run_id,
            get_channel=functools.cache(lambda: StoreLiveChannel(self._store, self.run_id)),
            has_dashboard=has_dashboard,
            budget=self.budget,
            first_budget=limits.get_first_budget(self.run_config, stored_config) or self.budget,
            target=settings.target,
            is_deterministic=settings.deterministic,
        )

    def _choose_order(self, run_id: str | None, built_system: system.BuiltSystem) -> IterationOrder:
        """Chooses the order by number, unless a limit depends on timing or the system asks for free mode."""
        if run_id is not None:
            stored_config = self._store.get_run(run_id).config
            if stored_config["is_ordered"] and self.budget.usd is not None:
                raise errors.SetupError(
                    "This run applies its iterations in order, so it cannot depend on dollars. Give the budget in "
                    "iterations, evals, calls, tokens or seconds."
                )
            return IterationOrder(stored_config["is_ordered"], stored_config["window"])
        settings, schedule = self.run_config.run, built_system.config.schedule
        timed_limits = (self.budget.seconds, self.budget.usd, self.budget.tokens, settings.island_budget)
        uses_clock = schedule is not None and schedule.uses_clock
        is_timed = uses_clock or any(limit is not None for limit in timed_limits)
        if settings.deterministic and is_timed:
            raise errors.SetupError(
                "A deterministic run cannot depend on seconds, dollars or tokens. Give the budget in iterations, evals "
                "or calls and resets in evaluations, and leave run.island_budget out."
            )
        max_window = built_system.config.window  # a system may need its own
        if built_system.is_free and not settings.deterministic:
            return IterationOrder(False, settings.window or min(max_window or settings.workers, settings.workers))
        fixed_window = min(max_window or config.DETERMINISTIC_WINDOW, config.DETERMINISTIC_WINDOW)
        if settings.window or is_timed:
            return IterationOrder(not is_timed, settings.window or settings.workers)
        return IterationOrder(True, fixed_window if settings.deterministic else 2 * settings.workers)

    def _open_run(self, run_id: str | None, files: Sequence[Path], extra_config: Mapping[str, str]) -> str:
        """Creates a run, or checks that the files of a stored run have not changed; returns its id."""
        hashes = limits.hash_files(files)
        if run_id is None:
            run_data = {**self.run_config.to_data(), **self._order._asdict(), "files": hashes, **extra_config}
            return self._store.create_run(config=run_data)
        if hashes != self._store.get_run(run_id).config["files"]:
            raise errors.SetupError(
                f"The files of {self.run_config.folder} have changed since run {run_id} began, so old and new scores "
                "are not comparable. Restore the files, or start a new run."
            )
        return run_id

    def _lock_run(self, built_system: system.BuiltSystem) -> store.RunLock:
        return self._store.lock_run(self.run_id)

    def _open_journal(self) -> journal.Journal:
        return self._store.journal(self.run_id)

    def _complete_config(
        self, system_config: cluster.EvolverConfig, run_journal: journal.Journal
    ) -> cluster.EvolverConfig:
        """Adds the parts of the run to the configuration that the system built."""
        settings, order = self.run_config.run, self._order
        return replace(
            system_config,
            num_parallel=settings.workers,
            journal=run_journal,
            budget=replace(self.budget, seconds=None) if order.is_ordered else self.budget,
            stop_rules=[*limits.make_stop_rules(settings, self._store, self.run_id), *system_config.stop_rules],
            inbox=self._store.inbox(self.run_id),
            seed=settings.seed,
            ordered=order.is_ordered,
            window=order.window,
        )

    def _make_evolver(
        self, evolver_config: cluster.EvolverConfig, report: Mapping[str, Any], built_system: system.BuiltSystem
    ) -> system.SystemEvolver:
        return system.SystemEvolver(
            evolver_config, report, built_system.close, built_system.use_profiler, built_system.repeated
        )

    def _make_report(self) -> Mapping[str, Any]:
        """Returns the settings that are printed when the run starts."""
        settings, call_price = self.run_config.run, self._run_llm.call_price if self._run_llm else None
        limit_texts = [
            f"{limit:g} {name}" for name, limit in limits.get_limits(self.budget).items() if limit is not None
        ]
        limit_texts += [f"a score of {settings.target:g}"] if settings.target is not None else []
        limit_texts += [f"{settings.patience} iterations without a gain"] if settings.patience is not None else []
        parameters = [f"{name} = {p['key']}@{p['version']}" for name, p in self.run_config.parameters.items()]
        report: dict[str, Any] = {"model": settings.llm}
        if self._run_llm is not None:
            report["model options"] = run_llm.describe_unused_options(self.run_config)
        if parameters:
            report["parameters"] = ", ".join(parameters)
        if call_price:
            report["cost"] = run_llm.describe_cost(call_price, self.budget, self.initial_program)
        if ray_config := self._executor_config.ray_config:
            report["executor"] = f"ray, {self._executor_config.num_slots} slots of {ray_config}"
        order_text = f"by iteration, {self._order.window} in flight: the same seed and scores give the same run"
        report |= {"seed": settings.seed, "limits": ", ".join(limit_texts)}
        return {**report, "order": order_text if self._order.is_ordered else "by completion time"}

    def _describe_start(self) -> dict[str, Any]:
        return {
            "sandbox": self.sandbox,
            "llm": self.run_config.run.llm,
            "plan": self.run_config.to_data(),
            "budget": limits.get_limits(self.budget),
        }

    @property
    def llm_budget(self) -> llm.LLMBudget | None:
        return self._run_llm.budget if self._run_llm else None

    @property
    def call_tracker(self) -> llm.CallTracker | None:
        return self._run_llm.call_tracker if self._run_llm else None

    @property
    def ray_stats(self) -> executor.RayStats | None:
        """Statistics of the Ray cluster; None if candidates are evaluated on this machine."""
        return self._executor_config.ray_stats

    def read_initial_score(self) -> float | None:
        """Returns the score of the initial candidate; None before its evaluation."""
        record = next(iter(self._store.journal(self.run_id).read_kinds("founded")), None)
        score: float | None = record.data["evaluation"]["score"] if record else None
        return score

    def run(self, on_poll: Callable[[], None] = lambda: None) -> None:
        """Runs until the budget is used, a stop rule applies, or the LLM keeps failing.

        Args:
            on_poll: Called about 50 times a second meanwhile, e.g. to update a display.

        Raises:
            RunFailed: The run failed. Everything until then is saved.
            SetupError: The configuration does not fit the journal.
        """
        evolver, started_at = self.evolver, time.monotonic()
        evolver.start()
        while not evolver.reason:
            time.sleep(POLL_SECONDS)
            on_poll()
            if self.time_limit is not None and time.monotonic() - started_at >= self.time_limit:
                evolver.stop(f"budget of {self.time_limit:g} seconds used")
        evolver.join()

    def conclude(self) -> Mapping[str, Any]:
        """Stores and returns the system's own summary of an ended run; empty if the system has none.

        Raises:
            SetupError: The system cannot read its input.
        """
        if self._summarize_result is None:
            return {}
        result = normalize_json(self._summarize_result(self.evolver))
        self._write_end_record(journal.CONCLUDED, {"result": result})
        return result

    def _write_end_record(self, kind: str, data: Mapping[str, Any]) -> None:
        record = journal.Record(kind, 0, ALL_ISLANDS, {"reason": self.evolver.reason, **data})
        self._store.journal(self.run_id).write(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.evolver.reason:  # left early: start nothing more, and do not wait for an LLM
            Thread(target=self.evolver.stop, args=("interrupted",), daemon=True).start()
        self._close()
        if self.ray_stats is not None and self.ray_stats.evaluations:
            self._write_end_record(journal.EXECUTED, {"executor": self.ray_stats.to_data()})
        self._run_lock.release()


def _bind_parameters(run_config: config.RunConfig, run_store: store.Store) -> config.RunConfig:
    """Reads the parameters that a configuration names."""
    if not run_config.bindings:
        return run_config
    return run_config.bind_parameters(make_parameter_reader(ledger.VersionLedger(run_store.change_log())))


def make_parameter_reader(version_ledger: ledger.VersionLedger) -> Callable[[str], config.BoundParameter]:
    """Returns a function that reads the parameters of a configuration by KEY, KEY@3 or KEY@production."""

    def resolve(name: str) -> config.BoundParameter:
        entry = version_ledger.resolve(name)
        return config.BoundParameter(entry.key, entry.n or 0, json.loads(entry.value or "null"))

    return resolve


def _build(
    run_config: config.RunConfig,
    context: system.BuildContext,
    build_system: BuildSystem | None,
    base_llm: llm.LLM | None,
) -> system.BuiltSystem:
    """Builds the system and changes it for the search method, and for an ensemble of LLMs."""
    built_system = run_config.build(context) if build_system is None else build_system(context)
    if run_config.run.method != "evolve":
        built_system = search_methods.apply_method(run_config.run.method, built_system)
    if isinstance(base_llm, llm.EnsembleLLM):
        routed = run_llm.add_routing(built_system.config, base_llm, run_config.llm)
        built_system = built_system._replace(config=routed)
    return built_system


def resume(
    run_store: store.Store,
    run_id: str,
    changes: Sequence[config.Sections] = (),
    *,
    llm_factory: LLMFactory | None = None,
    allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
    has_dashboard: bool = False,
) -> Session:
    """Continues a run. New limits replace all old ones and count from its end; without any, the last budget stays.

    Raises:
        NotFound: The run does not exist.
        SetupError: Its task has changed or is missing, or the changes are invalid.
        Conflict: Another process writes the run.
    """
    stored_config = run_store.get_run(run_id).config
    if "shared" in stored_config:
        raise errors.SetupError(f"Run {run_id} is shared by coordinators. Continue it with 'atoll join {run_id}'.")
    if "folder" not in stored_config:
        raise errors.SetupError(f"Run {run_id} has no task folder. Continue it with the program that started it.")
    if not Path(stored_config["folder"]).is_dir():
        raise errors.SetupError(f"The task of run {run_id} is missing. Restore {stored_config['folder']} to continue.")
    limits.check_changes(changes)
    has_new_limits = any(key in limits.LIMIT_KEYS for layer in changes for key in layer.get("run", {}))
    sections, budget = limits.load_last_sections(run_store, run_id)
    if has_new_limits:
        sections["run"] = {**sections["run"], **dict.fromkeys(limits.LIMIT_KEYS)}
    run_config = config.RunConfig.from_data(sections, changes)
    if has_new_limits:
        budget = _extend_budget(run_store, run_id, run_config.get_budget())
    return Session(
        run_store,
        run_config,
        run_id=run_id,
        budget=budget,
        llm_factory=llm_factory,
        allowed=allowed,
        has_dashboard=has_dashboard,
    )


def _extend_budget(run_store: store.Store, run_id: str, budget: control.Budget) -> control.Budget:
    """Adds the usage of the run to a budget, including LLM requests of iterations that are not finished."""
    usage, charges = compute_totals(run_store, run_id), run_llm.read_charges(run_store, run_id)
    applied, charged = usage.cost, sum(charges.values(), ZERO_COST)  # `applied` has evaluators' costs too
    tokens = (max(applied.tokens_in, charged.tokens_in), max(applied.tokens_out, charged.tokens_out))
    cost = Cost(0.0, *tokens, max(applied.usd, charged.usd), max(applied.calls, charged.calls))
    return limits.extend_budget(budget, replace(usage, cost=cost))
