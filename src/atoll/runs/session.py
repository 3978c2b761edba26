"""One run under way: its place in the store, its parts and its evolver."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

from atoll import cluster, config, control, errors, executor, journal, llm, store, system
from atoll.candidate import EMPTY, normalize_json
from atoll.llm import routing
from atoll.runs import executor_config, llm_budget, resume_checks, search_methods, stop_rules
from atoll.runs.data_export import iter_responses
from atoll.runs.live_channel import StoreLiveChannel
from atoll.runs.stop_rules import LLMFailureLimit
from atoll.runs.summary import compute_totals, find_run
from atoll.store.versions import ledger

POLL_SECONDS = 0.02
NON_SECTION_KEYS = (
    "is_ordered",
    "window",
    "files",
    "baseline_of",
    "baseline",
    "shared",
)  # what is stored beside the plan
ALL_ISLANDS = -1  # the island of a record that concerns all of them

type LLMFactory = Callable[[config.RunConfig], llm.LLM | None]


def make_llm(run_config: config.RunConfig, run_store: store.Store | None = None) -> llm.LLM | None:
    """Returns the model that a plan names, or None; `replay:RUN` is a run of the store, where there is no such file.

    Raises:
        SetupError: The name is not understood, or its key is missing.
        NotFound: There is neither such a file nor such a run.
    """
    if run_store is not None and (run_id := _find_recorded_run(run_config, run_store)):
        return llm.RecordedLLM(iter_responses(run_store, run_id), name=f"Run {run_id}")
    options, seconds = run_config.llm.to_options(), run_config.get_budget().seconds
    if seconds is not None:  # nobody waits longer for a server to come back than the run may last
        options["outage_seconds"] = min(options["outage_seconds"], seconds)
    return llm.make_llm(run_config.run.llm, **options)


def _find_recorded_run(run_config: config.RunConfig, run_store: store.Store) -> str | None:
    """Returns the run of the store that a plan wants to hear again, if any.

    Raises:
        NotFound: It names neither a file nor a run.
    """
    scheme, _, source = (part.strip() for part in run_config.run.llm.partition(":"))
    is_recorded = scheme.lower() in ("recorded", "replay") and bool(source)
    return find_run(run_store, source) if is_recorded and not Path(source).exists() else None


def make_parameter_reader(version_ledger: ledger.VersionLedger) -> Callable[[str], config.BoundParameter]:
    """Returns what finds the parameters that a plan names: KEY, KEY@3 or KEY@production."""

    def resolve(name: str) -> config.BoundParameter:
        entry = version_ledger.resolve(name)
        return config.BoundParameter(entry.key, entry.n or 0, json.loads(entry.value or "null"))

    return resolve


class _IterationOrder(NamedTuple):
    """Whether steps are applied in their order, and how many fly."""

    is_ordered: bool
    window: int


class Session:
    """A run that this process writes, from its claim to its end; to be used in a `with` block.

    A new run is created only when all its parts could be made.

    Args:
        kept: Where the run is.
        plan: What it is made from.
        run: A run that goes on; None: a new one.
        budget: What it may use in all; by default the plan's.
        model: Makes the model that the plan names.
        allowed: What whoever starts it takes upon themselves.
        link: What is stored besides of a new run: which one it is a baseline of.
        has_dashboard: Whether whoever starts it watches it in a browser.

    Attributes:
        run: The run's id.
        budget: What it may use in all.
        start: The text that evolution begins with.
        caption: Says what people are told of a candidate on the way; None: what is new in its text.
        seconds: When to stop it from outside, if ever: an ordered run itself knows no clock.
        evolver: Ready to start.
        sandbox: The level at which candidates run.

    Raises:
        SetupError: The plan cannot be carried out.
        NotFound: There is no such run.
        Conflict: Somebody else writes that run.
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
    ) -> None:
        self.plan = run_config = run_config.bind_parameters(
            make_parameter_reader(ledger.VersionLedger(run_store.change_log()))
        )
        self._store, self.budget = run_store, budget or run_config.get_budget()
        self._call_price: llm_budget.CallPrice | None = None
        self.llm_budget: llm.LLMBudget | None = None
        if run_id is None and llm_factory is None and (recorded_run := _find_recorded_run(run_config, run_store)):
            # By its id: `latest` would be this run itself when it goes on.
            self.plan = run_config = replace(
                run_config, run=run_config.run.model_copy(update={"llm": f"recorded:{recorded_run}"})
            )
        base_llm = make_llm(run_config, run_store) if llm_factory is None else llm_factory(run_config)
        for mailbox in _find_mailboxes(base_llm):
            mailbox.is_stopped = lambda: bool(self.evolver.reason)
        self._failure_limit = LLMFailureLimit(base_llm, self._stop_as_failed) if base_llm is not None else None
        resume_checks.check_budget(self.budget, has_llm=base_llm is not None)
        journaled_llm = self._make_journaled_llm(base_llm, run_id)
        self._executor_config = executor_config.make_executor_config(run_config, allowed, has_llm=base_llm is not None)
        context = self._make_build_context(journaled_llm, has_dashboard)
        built_system = search_methods.apply_method(
            run_config.run.method, run_config.load_builder().build(run_config.task, run_config.options, context)
        )
        if isinstance(base_llm, llm.EnsembleLLM):
            built_system = built_system._replace(config=_add_routing(built_system.config, run_config.llm, base_llm))
        try:
            order, files = self._choose_order(run_id, built_system), resume_checks.hash_files(built_system.files)
            if run_id is not None:
                self._check_files(run_id, files)
            self.run_id = run_id or run_store.create_run(
                config={**run_config.to_data(), **order._asdict(), "files": files, **extra_config}
            )
            self._run_lock, self._close = self._lock_run(built_system), built_system.close
            self._live_channel = StoreLiveChannel(run_store, self.run_id)
            self._prepare_evolver(built_system, order)
        except BaseException:
            built_system.close()
            if run_lock := getattr(self, "_run_lock", None):
                run_lock.release()
            raise

    def _make_build_context(self, journaled_llm: llm.LLM | None, has_dashboard: bool) -> system.BuildContext:
        """Returns what the system is built from; what it asks for by a function is there when it runs."""
        settings, run_store = self.plan.run, self._store
        return system.BuildContext(
            self.plan.folder,
            journaled_llm,
            self._executor_config,
            settings.workers,
            settings.seed,
            run_store.blobs(),
            run_store.versions(),
            lambda: self.run_id,
            lambda: self._live_channel,
            has_dashboard,
        )

    def _check_files(self, run_id: str, files: Mapping[str, str]) -> None:
        if files != self._store.get_run(run_id).config["files"]:
            raise errors.SetupError(
                f"The files of {self.plan.folder} are not those that run {run_id} began with, so its scores would not "
                "compare with new ones: put them back, or start a new run."
            )

    def run(self, on_poll: Callable[[], None] = lambda: None) -> None:
        """Evolves to the end: of the budget, of the time, or of all hope that the model answers.

        Args:
            on_turn: Called some dozens of times a second meanwhile, for whoever watches.

        Raises:
            RunFailed: The run ended before its time; what was written is saved.
            SetupError: The set-up does not fit the journal.
        """
        evolver, started_at = self.evolver, time.monotonic()
        evolver.start()
        while not evolver.reason:
            time.sleep(POLL_SECONDS)
            on_poll()
            if self.time_limit is not None and time.monotonic() - started_at >= self.time_limit:
                evolver.stop(f"budget of {self.time_limit:g} seconds used")
        evolver.join()

    def _make_journaled_llm(self, base_llm: llm.LLM | None, run_id: str | None) -> llm.LLM | None:
        """Returns the model as steps ask it: stored replies first, then within the budget, then with patience."""
        if base_llm is None or self._failure_limit is None:
            return None
        call_price = llm_budget.get_call_price(base_llm, self.plan.llm)
        llm_budget.check_dollar_budget(self.plan, self.budget, call_price)
        self._call_price = call_price
        self.llm_budget = llm_budget.make_llm_budget(
            self.plan, self.budget, self._store, run_id, lambda reason: self.evolver.stop(reason)
        )
        return llm.JournaledLLM(
            llm_budget.make_metered_llm(self._failure_limit, call_price, self.llm_budget, self.plan.llm)
        )

    def _stop_as_failed(self, reason: str) -> None:
        self.evolver.stop(f"failed: {reason}")

    def _get_llm_limits(self) -> control.Budget:
        """Returns what calls may cost. In an ordered run the kernel counts them itself, by steps and not by arrival."""
        budget = self.evolver.budget
        return replace(budget, calls=None) if self._is_ordered else budget

    def _prepare_evolver(self, built_system: system.BuiltSystem, order: _IterationOrder) -> None:
        self._is_ordered = order.is_ordered
        if self.llm_budget is not None:
            self.llm_budget.num_islands, self.llm_budget.get_budget = (
                built_system.config.island_config.num_islands,
                self._get_llm_limits,
            )
        run_config, run_journal = self.plan, self._open_journal()
        self.time_limit = self.budget.seconds if order.is_ordered else None
        evolver_config = replace(
            built_system.config,
            num_parallel=run_config.run.workers,
            journal=run_journal,
            budget=replace(self.budget, seconds=None) if order.is_ordered else self.budget,
            stop_rules=[
                *built_system.config.stop_rules,
                *stop_rules.make_stop_rules(run_config.run, self._store, self.run_id),
            ],
            inbox=self._store.inbox(self.run_id),
            seed=run_config.run.seed,
            ordered=order.is_ordered,
            window=order.window,
        )
        self._finish, self.summarize_candidate = built_system.summarize_result, built_system.summarize_candidate
        self.sandbox, self.initial_program = (
            built_system.sandbox,
            str(built_system.config.island_config.initial_fn.skeleton()),
        )
        report = {**built_system.report, **self._make_report(order)}
        self.evolver = self._build_evolver(evolver_config, report, built_system)
        budget_limits = {field.name: getattr(self.budget, field.name) for field in fields(self.budget)}
        data = {
            "sandbox": built_system.sandbox,
            "llm": run_config.run.llm,
            "plan": run_config.to_data(),
            "budget": budget_limits,
        }
        run_journal.write(journal.Record("started", 0, ALL_ISLANDS, data))

    def _lock_run(self, built_system: system.BuiltSystem) -> store.RunLock:
        """Takes the right to write the run."""
        return self._store.lock_run(self.run_id)

    def _open_journal(self) -> journal.Journal:
        return self._store.journal(self.run_id)

    def _build_evolver(
        self, evolver_config: cluster.EvolverConfig, report: Mapping[str, Any], built_system: system.BuiltSystem
    ) -> system.SystemEvolver:
        return system.SystemEvolver(evolver_config, report, built_system.close, built_system.use_profiler)

    def conclude(self) -> Mapping[str, Any]:
        """Lets the system sum up what the islands keep, once the run has ended, and stores that; empty: nothing to add.

        Raises:
            SetupError: What it needs for that cannot be read.
        """
        if self._finish is None:
            return {}
        result = normalize_json(self._finish(self.evolver))
        data = {"reason": self.evolver.reason, "result": result}
        self._store.journal(self.run_id).write(journal.Record("concluded", 0, ALL_ISLANDS, data))
        return result

    @property
    def ray_stats(self) -> executor.RayStats | None:
        """What a cluster did for the run; None: it is judged on this machine."""
        return self._executor_config.ray_stats if self._executor_config.ray_config is not None else None

    def _make_report(self, order: _IterationOrder) -> Mapping[str, Any]:
        budget_limits = {field.name: getattr(self.budget, field.name) for field in fields(self.budget)}
        limit_texts = [f"{limit:g} {name}" for name, limit in budget_limits.items() if limit is not None]
        limit_texts += [f"a score of {self.plan.run.target:g}"] if self.plan.run.target is not None else []
        limit_texts += [f"{self.plan.run.patience} steps without a gain"] if self.plan.run.patience is not None else []
        order_text = f"by steps, {order.window} in flight: the same seed gives the same run"
        ray_config = self._executor_config.ray_config
        cost_report = (
            {"cost": llm_budget.describe_cost(self._call_price, self.budget, self.initial_program)}
            if self._call_price
            else {}
        )
        parameter_texts = [
            f"{name} = {parameter['key']}@{parameter['version']}" for name, parameter in self.plan.parameters.items()
        ]
        return {
            "model": self.plan.run.llm,
            **({"parameters": ", ".join(parameter_texts)} if parameter_texts else {}),
            **cost_report,
            **({"executor": f"ray, {self._executor_config.num_slots} seats of {ray_config}"} if ray_config else {}),
            "seed": self.plan.run.seed,
            "limits": ", ".join(limit_texts),
            "order": order_text if order.is_ordered else "free: what is done first counts first",
        }

    def _choose_order(self, run_id: str | None, built_system: system.BuiltSystem) -> _IterationOrder:
        """Orders the steps wherever no clock has a say, so that the same seed gives the same run."""
        if run_id is not None:
            stored_config = self._store.get_run(run_id).config
            return _IterationOrder(stored_config["is_ordered"], stored_config["window"])
        settings, schedule = self.plan.run, built_system.config.schedule
        uses_clock = schedule is not None and schedule.uses_clock
        timed_limits = (self.budget.seconds, self.budget.usd, self.budget.tokens, settings.island_budget)
        is_timed = uses_clock or any(limit is not None for limit in timed_limits)
        if settings.deterministic and is_timed:
            raise errors.SetupError(
                "A deterministic run cannot depend on seconds, dollars or tokens, which hang on timing: give its "
                "budget in iterations, evals or calls, its resets in evaluations, and islands no budget of their own."
            )
        fixed_window = (
            built_system.config.window or config.DETERMINISTIC_WINDOW
        )  # a system may know what its order needs
        default_window = fixed_window if settings.deterministic else 2 * settings.workers
        return _IterationOrder(not is_timed, settings.window or (settings.workers if is_timed else default_window))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.evolver.reason:  # left early: nothing more is begun, and nobody waits for a model
            Thread(target=self.evolver.stop, args=("interrupted",), daemon=True).start()
        self._close()
        if self.ray_stats is not None and self.ray_stats.evaluations:
            data = {"reason": self.evolver.reason, "executor": self.ray_stats.to_data()}
            self._store.journal(self.run_id).write(journal.Record("executed", 0, ALL_ISLANDS, data))
        self._run_lock.release()


def resume(
    run_store: store.Store,
    run_id: str,
    changes: Sequence[config.Sections] = (),
    *,
    llm_factory: LLMFactory | None = None,
    allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
    has_dashboard: bool = False,
) -> Session:
    """Goes on with a run where it ended; limits among the changes replace the old ones and count from there.

    Raises:
        NotFound: There is no such run.
        SetupError: Its task has changed or is gone, or the changes are wrong.
        Conflict: Somebody else writes it.
    """
    stored_config = run_store.get_run(run_id).config
    if "shared" in stored_config:
        raise errors.SetupError(f"Run {run_id} is shared by coordinators: go on with 'atoll join {run_id}'.")
    if "folder" not in stored_config:
        raise errors.SetupError(f"Run {run_id} comes from no task folder: go on with the program that made it.")
    if not Path(stored_config["folder"]).is_dir():
        raise errors.SetupError(f"The task of run {run_id} is gone: put {stored_config['folder']} back to go on.")
    resume_checks.check_changes(changes)
    changed_limits = resume_checks.LIMIT_KEYS.intersection(key for layer in changes for key in layer.get("run", {}))
    sections = {name: value for name, value in stored_config.items() if name not in NON_SECTION_KEYS}
    stored_budget: Mapping[str, Any] | None = None
    for record in run_store.journal(run_id).read_kinds(
        "started"
    ):  # what was changed for an earlier resume stays changed
        last_plan = record.data["plan"]
        sections |= {name: last_plan[name] for name in ("llm", "sandbox", "executor") if name in last_plan}
        carried_keys = ("llm", "workers", *resume_checks.LIMIT_KEYS)
        sections["run"] = {
            **sections["run"],
            **{key: last_plan["run"][key] for key in carried_keys if key in last_plan["run"]},
        }
        stored_budget = record.data.get("budget")
    if changed_limits:
        sections["run"] = {**sections["run"], **dict.fromkeys(resume_checks.LIMIT_KEYS)}
    run_config = config.RunConfig.from_data(sections, changes)
    previous_budget = (
        run_config.get_budget() if stored_budget is None else control.Budget(**stored_budget)
    )  # a resume that was cut had its own
    budget = (
        resume_checks.extend_budget(run_config.get_budget(), compute_totals(run_store, run_id))
        if changed_limits
        else previous_budget
    )
    return Session(
        run_store,
        run_config,
        run_id=run_id,
        budget=budget,
        llm_factory=llm_factory,
        allowed=allowed,
        has_dashboard=has_dashboard,
    )


def _find_mailboxes(base_llm: llm.LLM | None) -> list[llm.MailboxLLM]:
    members = [member.llm for member in base_llm.members] if isinstance(base_llm, llm.EnsembleLLM) else [base_llm]
    return [member for member in members if isinstance(member, llm.MailboxLLM)]


def _add_routing(
    evolver_config: cluster.EvolverConfig, settings: config.LLMSettings, ensemble: llm.EnsembleLLM
) -> cluster.EvolverConfig:
    """Returns a configuration whose steps are advised which model to ask."""
    learner = routing.make_router(settings.route, ensemble, plateau_iterations=settings.plateau_steps)
    islands = replace(
        evolver_config.island_config, mutation_engine=llm.RoutedProposer(evolver_config.island_config.mutation_engine)
    )
    combined = learner if evolver_config.learner is None else routing.CombinedLearner(evolver_config.learner, learner)
    return replace(evolver_config, island_config=islands, learner=combined)
