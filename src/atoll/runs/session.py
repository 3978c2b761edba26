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
from atoll.candidate import NOTHING, plain
from atoll.llm import routing
from atoll.runs import limits, methods, place, spending, stopping
from atoll.runs.contact import StoredContact
from atoll.runs.lookup import find
from atoll.runs.patience import Patience
from atoll.runs.replaying import replay_lines
from atoll.runs.summary import totals
from atoll.store import ledger

TURN_SECONDS = 0.02
NO_SECTIONS = ("is_ordered", "window", "files", "baseline_of", "baseline", "shared")  # what is stored beside the plan
ALL = -1  # the island of a record that concerns all of them

type MakeLLM = Callable[[config.Plan], llm.LLM | None]


def make_llm(plan: config.Plan, kept: store.Store | None = None) -> llm.LLM | None:
    """Returns the model that a plan names, or None; `replay:RUN` is a run of the store, where there is no such file.

    Raises:
        SetupError: The name is not understood, or its key is missing.
        NotFound: There is neither such a file nor such a run.
    """
    if kept is not None and (run := _replayed(plan, kept)):
        return llm.Replay(replay_lines(kept, run), where=f"Run {run}")
    options, seconds = plan.llm.options(), plan.budget().seconds
    if seconds is not None:  # nobody waits longer for a server to come back than the run may last
        options["outage_seconds"] = min(options["outage_seconds"], seconds)
    return llm.make_llm(plan.run.llm, **options)


def _replayed(plan: config.Plan, kept: store.Store) -> str | None:
    """Returns the run of the store that a plan wants to hear again, if any.

    Raises:
        NotFound: It names neither a file nor a run.
    """
    scheme, _, rest = (part.strip() for part in plan.run.llm.partition(":"))
    return find(kept, rest) if scheme.lower() == "replay" and rest and not Path(rest).exists() else None


def reader(known: ledger.Ledger) -> Callable[[str], config.Bound]:
    """Returns what finds the parameters that a plan names: KEY, KEY@3 or KEY@production."""

    def resolve(name: str) -> config.Bound:
        found = known.resolve(name)
        return config.Bound(found.key, found.n or 0, json.loads(found.value or "null"))

    return resolve


class _Order(NamedTuple):
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
        kept: store.Store,
        plan: config.Plan,
        *,
        run: str | None = None,
        budget: control.Budget | None = None,
        model: MakeLLM | None = None,
        allowed: place.Allowed = place.NOTHING,
        link: Mapping[str, str] = NOTHING,
        has_dashboard: bool = False,
    ) -> None:
        self.plan = plan = plan.bound(reader(ledger.Ledger(kept.book())))
        self._kept, self.budget = kept, budget or plan.budget()
        self._cost: spending.Tariff | None = None
        self.purse: llm.Purse | None = None
        if run is None and model is None and (heard := _replayed(plan, kept)):
            # By its id: `latest` would be this run itself when it goes on.
            self.plan = plan = replace(plan, run=plan.run.model_copy(update={"llm": f"replay:{heard}"}))
        asked = make_llm(plan, kept) if model is None else model(plan)
        for box in _mailboxes(asked):
            box.is_over = lambda: bool(self.evolver.reason)
        self._patience = Patience(asked, self._give_up) if asked is not None else None
        limits.check_budget(self.budget, has_model=asked is not None)
        durable = self._durable(asked, run)
        self._where = place.place_of(plan, allowed, has_model=asked is not None)
        parts = self._parts(durable, has_dashboard)
        built = methods.changed(plan.run.method, plan.builder().build(plan.task, plan.options, parts))
        if isinstance(asked, llm.Ensemble):
            built = built._replace(config=_routed(built.config, plan.llm, asked))
        try:
            order, files = self._order(run, built), limits.fingerprints(built.files)
            if run is not None:
                self._check_files(run, files)
            self.run = run or kept.create(config={**plan.to_data(), **order._asdict(), "files": files, **link})
            self._claim, self._close = self._claimed(built), built.close
            self._contact = StoredContact(kept, self.run)
            self._make_evolver(built, order)
        except BaseException:
            built.close()
            if claim := getattr(self, "_claim", None):
                claim.release()
            raise

    def _parts(self, durable: llm.LLM | None, has_dashboard: bool) -> system.Parts:
        """Returns what the system is built from; what it asks for by a function is there when it runs."""
        wanted, kept = self.plan.run, self._kept
        return system.Parts(
            self.plan.folder,
            durable,
            self._where,
            wanted.workers,
            wanted.seed,
            kept.blobs(),
            kept.versions(),
            lambda: self.run,
            lambda: self._contact,
            has_dashboard,
        )

    def _check_files(self, run: str, files: Mapping[str, str]) -> None:
        if files != self._kept.run(run).config["files"]:
            raise errors.SetupError(
                f"The files of {self.plan.folder} are not those that run {run} began with, so its scores would not "
                "compare with new ones: put them back, or start a new run."
            )

    def go(self, on_turn: Callable[[], None] = lambda: None) -> None:
        """Evolves to the end: of the budget, of the time, or of all hope that the model answers.

        Args:
            on_turn: Called some dozens of times a second meanwhile, for whoever watches.

        Raises:
            RunFailed: The run ended before its time; what was written is saved.
            SetupError: The set-up does not fit the journal.
        """
        evolver, since = self.evolver, time.monotonic()
        evolver.start()
        while not evolver.reason:
            time.sleep(TURN_SECONDS)
            on_turn()
            if self.seconds is not None and time.monotonic() - since >= self.seconds:
                evolver.stop(f"budget of {self.seconds:g} seconds used")
        evolver.join()

    def _durable(self, asked: llm.LLM | None, run: str | None) -> llm.LLM | None:
        """Returns the model as steps ask it: stored replies first, then within the budget, then with patience."""
        if asked is None or self._patience is None:
            return None
        tariff = spending.tariff_of(asked, self.plan.llm)
        spending.check(self.plan, self.budget, tariff)
        self._cost = tariff
        self.purse = spending.purse_of(self.plan, self.budget, self._kept, run, lambda why: self.evolver.stop(why))
        return llm.Durable(spending.metered(self._patience, tariff, self.purse, self.plan.llm))

    def _give_up(self, why: str) -> None:
        self.evolver.stop(f"failed: {why}")

    def _budget_now(self) -> control.Budget:
        """Returns what calls may cost. In an ordered run the kernel counts them itself, by steps and not by arrival."""
        standing = self.evolver.budget
        return replace(standing, calls=None) if self._is_ordered else standing

    def _make_evolver(self, built: system.Built, order: _Order) -> None:
        self._is_ordered = order.is_ordered
        if self.purse is not None:
            self.purse.num_islands, self.purse.now = built.config.island_config.num_islands, self._budget_now
        plan, records = self.plan, self._journal()
        self.seconds = self.budget.seconds if order.is_ordered else None
        made = replace(
            built.config,
            num_parallel=plan.run.workers,
            journal=records,
            budget=replace(self.budget, seconds=None) if order.is_ordered else self.budget,
            stop_rules=[*built.config.stop_rules, *stopping.stop_rules(plan.run, self._kept, self.run)],
            inbox=self._kept.inbox(self.run),
            seed=plan.run.seed,
            ordered=order.is_ordered,
            window=order.window,
        )
        self._finish, self.caption = built.finish, built.caption
        self.sandbox, self.start = built.sandbox, str(built.config.island_config.initial_fn.skeleton())
        said = {**built.report, **self._report(order)}
        self.evolver = self._evolver(made, said, built)
        limits = {field.name: getattr(self.budget, field.name) for field in fields(self.budget)}
        data = {"sandbox": built.sandbox, "llm": plan.run.llm, "plan": plan.to_data(), "budget": limits}
        records.write(journal.Record("started", 0, ALL, data))

    def _claimed(self, built: system.Built) -> store.Claim:
        """Takes the right to write the run."""
        return self._kept.claim(self.run)

    def _journal(self) -> journal.Journal:
        return self._kept.journal(self.run)

    def _evolver(self, made: cluster.EvolverConfig, said: Mapping[str, Any], built: system.Built) -> system.Evolver:
        return system.Evolver(made, said, built.close, built.use_profiler)

    def conclude(self) -> Mapping[str, Any]:
        """Lets the system sum up what the islands keep, once the run has ended, and stores that; empty: nothing to add.

        Raises:
            SetupError: What it needs for that cannot be read.
        """
        if self._finish is None:
            return {}
        found = plain(self._finish(self.evolver))
        data = {"reason": self.evolver.reason, "result": found}
        self._kept.journal(self.run).write(journal.Record("concluded", 0, ALL, data))
        return found

    @property
    def tally(self) -> executor.Tally | None:
        """What a cluster did for the run; None: it is judged on this machine."""
        return self._where.tally if self._where.cluster is not None else None

    def _report(self, order: _Order) -> Mapping[str, Any]:
        most = {field.name: getattr(self.budget, field.name) for field in fields(self.budget)}
        said = [f"{limit:g} {name}" for name, limit in most.items() if limit is not None]
        said += [f"a score of {self.plan.run.target:g}"] if self.plan.run.target is not None else []
        said += [f"{self.plan.run.patience} steps without a gain"] if self.plan.run.patience is not None else []
        how = f"by steps, {order.window} in flight: the same seed gives the same run"
        terms = self._where.cluster
        cost = {"cost": spending.told(self._cost, self.budget, self.start)} if self._cost else {}
        bound = [f"{name} = {each['key']}@{each['version']}" for name, each in self.plan.parameters.items()]
        return {
            "model": self.plan.run.llm,
            **({"parameters": ", ".join(bound)} if bound else {}),
            **cost,
            **({"executor": f"ray, {self._where.num_slots} seats of {terms}"} if terms else {}),
            "seed": self.plan.run.seed,
            "limits": ", ".join(said),
            "order": how if order.is_ordered else "free: what is done first counts first",
        }

    def _order(self, run: str | None, built: system.Built) -> _Order:
        """Orders the steps wherever no clock has a say, so that the same seed gives the same run."""
        if run is not None:
            stored = self._kept.run(run).config
            return _Order(stored["is_ordered"], stored["window"])
        wanted, schedule = self.plan.run, built.config.schedule
        uses_clock = schedule is not None and schedule.uses_clock
        measured = (self.budget.seconds, self.budget.usd, self.budget.tokens, wanted.island_budget)
        is_timed = uses_clock or any(limit is not None for limit in measured)
        if wanted.deterministic and is_timed:
            raise errors.SetupError(
                "A deterministic run cannot depend on seconds, dollars or tokens, which hang on timing: give its "
                "budget in iterations, evals or calls, its resets in evaluations, and islands no budget of their own."
            )
        fixed = built.config.window or config.DETERMINISTIC_WINDOW  # a system may know what its order needs
        usual = fixed if wanted.deterministic else 2 * wanted.workers
        return _Order(not is_timed, wanted.window or (wanted.workers if is_timed else usual))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.evolver.reason:  # left early: nothing more is begun, and nobody waits for a model
            Thread(target=self.evolver.stop, args=("interrupted",), daemon=True).start()
        self._close()
        if self.tally is not None and self.tally.evaluations:
            data = {"reason": self.evolver.reason, "executor": self.tally.to_data()}
            self._kept.journal(self.run).write(journal.Record("executed", 0, ALL, data))
        self._claim.release()


def resume(
    kept: store.Store,
    run: str,
    changes: Sequence[config.Sections] = (),
    *,
    model: MakeLLM | None = None,
    allowed: place.Allowed = place.NOTHING,
    has_dashboard: bool = False,
) -> Session:
    """Goes on with a run where it ended; limits among the changes replace the old ones and count from there.

    Raises:
        NotFound: There is no such run.
        SetupError: Its task has changed or is gone, or the changes are wrong.
        Conflict: Somebody else writes it.
    """
    stored = kept.run(run).config
    if "shared" in stored:
        raise errors.SetupError(f"Run {run} is shared by coordinators: go on with 'atoll join {run}'.")
    if "folder" not in stored:
        raise errors.SetupError(f"Run {run} comes from no task folder: go on with the program that made it.")
    if not Path(stored["folder"]).is_dir():
        raise errors.SetupError(f"The task of run {run} is gone: put {stored['folder']} back to go on.")
    limits.check_changes(changes)
    is_limit = limits.LIMITS.intersection(key for layer in changes for key in layer.get("run", {}))
    old = {name: value for name, value in stored.items() if name not in NO_SECTIONS}
    allowance: Mapping[str, Any] | None = None
    for record in kept.journal(run).of_kind("started"):  # what was changed for an earlier resume stays changed
        last = record.data["plan"]
        old |= {name: last[name] for name in ("llm", "sandbox", "executor") if name in last}
        kept_keys = ("llm", "workers", *limits.LIMITS)
        old["run"] = {**old["run"], **{key: last["run"][key] for key in kept_keys if key in last["run"]}}
        allowance = record.data.get("budget")
    if is_limit:
        old["run"] = {**old["run"], **dict.fromkeys(limits.LIMITS)}
    plan = config.Plan.from_data(old, changes)
    standing = plan.budget() if allowance is None else control.Budget(**allowance)  # a resume that was cut had its own
    budget = limits.further(plan.budget(), totals(kept, run)) if is_limit else standing
    return Session(kept, plan, run=run, budget=budget, model=model, allowed=allowed, has_dashboard=has_dashboard)


def _mailboxes(model: llm.LLM | None) -> list[llm.Mailbox]:
    members = [each.llm for each in model.members] if isinstance(model, llm.Ensemble) else [model]
    return [each for each in members if isinstance(each, llm.Mailbox)]


def _routed(made: cluster.EvolverConfig, wanted: config.LLMSettings, ensemble: llm.Ensemble) -> cluster.EvolverConfig:
    """Returns a configuration whose steps are advised which model to ask."""
    learner = routing.make(wanted.route, ensemble, plateau_steps=wanted.plateau_steps)
    islands = replace(made.island_config, mutation_engine=llm.Routed(made.island_config.mutation_engine))
    both = learner if made.learner is None else routing.Advisers(made.learner, learner)
    return replace(made, island_config=islands, learner=both)
