"""The evolver: worker threads, one lock, one journal. `window` iterations are in flight; applying one issues one.

start:  the first worker adds the initial function or recovers the journal, then issues `window` iterations
worker: while an iteration is ready: run it without the lock, then finish it
finish: [lock] apply the next finished iteration, issue another, write both in ONE commit; then deliver the events
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from threading import Condition, Thread, current_thread

from atoll import archipelago, control, errors, evaluation, function, journal, profiler
from atoll.candidate import JSON, Candidate, content_hash, normalize_json
from atoll.cluster import records
from atoll.cluster.archipelago_state import ALL_ISLANDS, POLL_SECONDS, ArchipelagoState, ControlState, Island
from atoll.cluster.config import EvolverConfig
from atoll.cluster.iteration import EvaluationCache, IterationOutcome, IterationWorker, StoredCalls, WorkerTools
from atoll.cluster.recovery import JournalRecovery
from atoll.cluster.schedules import RoundRobin

# Iterations without an evaluation that end a run with an evaluation budget. With an LLM each may cost two calls.
MAX_IDLE_ITERATIONS, MAX_IDLE_LLM_ITERATIONS = 2000, 100


class Evolver:
    """Evolves islands on worker threads."""

    def __init__(self, config: EvolverConfig) -> None:
        island_config = config.island_config
        default_schedule = RoundRobin(island_config.num_islands, reset_seconds=config.reset_period, clock=config.clock)
        self._schedule = config.schedule or default_schedule
        config.check(self._schedule)
        self._config, self._started_at = config, config.clock()
        self._window = config.window or (32 if config.ordered else config.num_parallel)
        self._journal, self._cache = journal.CheckedJournal(config.journal), EvaluationCache()
        self._events, self._stop_signal, self._condition = profiler.EventQueue(), control.StopSignal(), Condition()
        self._state = ArchipelagoState(config, self._events, self._run_iteration_on)
        self._control_state = ControlState(config, self._state, self._stop_signal)
        proposer = function.as_proposer(island_config.mutation_engine)
        self._tools = WorkerTools(config, proposer, self._journal, self._cache, self._is_time_over)
        self._threads: list[Thread] = []
        self._active_workers, self._last_iteration, self._is_loaded = config.num_parallel, 0, False
        self._ready: deque[archipelago.PendingIteration] = deque()
        self._in_flight: dict[int, archipelago.PendingIteration] = {}
        self._finished: dict[int, IterationOutcome] = {}
        self._stored_calls: dict[int, StoredCalls] = {}
        self._failure: BaseException | None = None

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[archipelago.EvolverEvent]) -> profiler.Remove:
        return self._state.profilers.use(profiler_fn)

    @property
    def islands(self) -> Sequence[Island]:
        return tuple(self._state.islands)

    @property
    def usage(self) -> control.Usage:
        return self._state.usage

    @property
    def reason(self) -> str:
        """Reason for the end of the run; empty while it is running."""
        return self._stop_signal.reason

    def lock(self) -> Condition:
        """Returns the lock that stops changes while you read the populations: `with evolver.lock(): ...`."""
        return self._condition

    def best_fn(self) -> function.Function:
        """Returns the best function of all islands so far.

        Raises:
            NotFound: The run has not started.
        """
        if self._state.best is None:
            raise errors.NotFound("The run has not started.")
        return self._state.best

    def start(self) -> None:
        """Starts the worker threads and returns at once. The first thread recovers the journal, if it has records.

        Raises:
            SetupError: It was started before.
        """
        if self._threads:
            raise errors.SetupError("This evolver was started before: make a new one on the same journal to resume.")
        names = [f"atoll-{index}" for index in range(self._config.num_parallel)]
        with self._condition:  # so that `join` sees only started threads
            self._threads = [Thread(target=self._run_worker, name=name, daemon=True) for name in names]
            for thread in self._threads:
                thread.start()

    def join(self) -> None:
        """Waits for the end.

        Raises:
            RunFailed: The run ended early; written records are saved.
            SetupError: The set-up does not fit the journal or the schedule.
        """
        for thread in self._threads:
            if thread.ident is not None:  # Ctrl-C may come before all have started
                thread.join()
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str = "stopped") -> None:
        """Finishes running iterations and returns when all is saved; inside a profiler, returns at once."""
        self._stop_signal.stop(reason)
        with self._condition:
            self._condition.notify_all()
        if current_thread() not in self._threads:
            self.join()

    def run(self) -> None:
        """Starts and waits for the end. Ctrl-C finishes running iterations, saves, and is raised again."""
        try:
            self.start()
            self.join()
        except KeyboardInterrupt:
            self.stop("interrupted")
            raise

    def _run_worker(self) -> None:
        result = errors.capture(self._run_iterations, reraise=())
        with self._condition:
            if isinstance(result, errors.CaughtException):
                self._fail(result.error)
            self._condition.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Ends the run. Nothing more is applied, since the population may be ahead of the journal."""
        if self._failure is None:
            self._failure = error
            if not isinstance(error, errors.AtollError):
                self._failure = errors.RunFailed(f"The run failed: {error!r}")
                self._failure.__cause__ = error
            self._stop_signal.stop(f"failed: {error}")
            self._events.discard()
            errors.capture(self._write_end, reraise=())  # the journal may fail too

    def _run_iterations(self) -> None:
        self._ensure_loaded()
        self._commit(self._fill_window)
        while pending := self._wait_for_next():
            stored_calls = self._stored_calls.get(pending.iteration) or StoredCalls()
            self._finish(IterationWorker(self._tools, pending, stored_calls).run())
        with self._condition:
            self._active_workers -= 1
            if not self._active_workers and self._failure is None:
                self._write_end()
        self._events.deliver()

    def _write_end(self) -> None:
        data = {"reason": self.reason}
        self._journal.write(journal.Record(journal.ENDED, self._last_iteration, ALL_ISLANDS, data))

    def _ensure_loaded(self) -> None:
        """Recovers the journal, or adds the initial function. The first worker does it; the others wait."""
        self._commit(lambda: () if self._is_loaded else self._load())
        self._events.deliver()

    def _load(self) -> Sequence[journal.Record]:
        recovery = JournalRecovery(self._state, self._cache, self._setup).recover(self._journal.read())
        self._events.discard()
        self._control_state.restore(recovery.commands)
        self._last_iteration, self._stored_calls, self._is_loaded = recovery.last_iteration, recovery.stored_calls, True
        self._in_flight = dict(sorted(recovery.pending.items()))
        self._ready.extend(self._in_flight.values())
        return self._add_initial() if recovery.setup is None else ()

    @property
    def _setup(self) -> dict[str, JSON]:
        """Values that a resume must not change, since the records depend on them."""
        config, islands = self._config, self._config.island_config
        initial = content_hash(str(islands.initial_fn.skeleton()))[:12]
        setup: dict[str, JSON] = {"num_islands": islands.num_islands, "ordered": config.ordered, "initial": initial}
        return setup | ({"seed": config.seed, "window": self._window} if config.ordered else {})

    def _add_initial(self) -> Sequence[journal.Record]:
        initial = self._config.island_config.initial_fn
        candidate = Candidate("0.0", str(initial.skeleton()))
        if str(self._state.make_evaluated_fn(candidate, None).skeleton()) != candidate.content:
            raise errors.SetupError("make_skeleton does not reproduce the initial function's text: pass one that does.")
        call_cache = journal.CallCache(
            0,
            ALL_ISLANDS,
            self._journal,
            self._stored_calls[0].responses,
            max_evaluations=self._control_state.budget.evaluations,
        )
        token = journal.CallCache.current.set(call_cache)
        fn = initial.clone(initial.skeleton())
        fn.evaluate()
        journal.CallCache.current.reset(token)
        result = fn.evaluation or evaluation.failed("it was not evaluated")
        result = replace(result, cost=result.cost + call_cache.cost)
        if result.failure is not None:
            raise errors.RunFailed(
                f"The initial candidate has no score: {result.failure.rstrip('.')}. Correct it or its evaluator."
            )
        self._cache.put(content_hash(candidate.content), 0, result)
        (record,) = self._state.add_initial(initial.with_evaluation(candidate, result))
        return [record._replace(data={**record.data, "setup": self._setup})]

    def _wait_for_next(self) -> archipelago.PendingIteration | None:
        """Waits for an iteration; None when the run is done. After a stop, ready iterations stay pending."""
        with self._condition:
            while not self._stop_signal.is_set():
                if self._ready:
                    return self._ready.popleft()
                if not self._in_flight and not self._control_state.is_paused:
                    self._stop_if_finished()
                    continue
                self._condition.wait(POLL_SECONDS if self._control_state.is_paused else None)
                if self._control_state.is_paused:
                    self._commit(self._fill_window)
                    while self._commit(self._apply_next):
                        pass
        return None

    def _stop_if_finished(self) -> None:
        """Reads the last commands, then ends the run if no iteration can be issued."""
        self._commit(lambda: self._control_state.read_commands(self._last_iteration, force=True))
        self._commit(self._fill_window)
        if not self._ready and not self._control_state.is_paused:
            self._stop_signal.stop(self._get_stop_reason() or "nothing left to do")
            self._condition.notify_all()

    def _finish(self, outcome: IterationOutcome) -> None:
        with self._condition:
            self._finished[outcome.pending.iteration] = outcome
            while self._commit(self._apply_next):
                pass
            if len(self._ready) > 1 or not self._in_flight:  # this worker takes a single one itself
                self._condition.notify_all()
        self._events.deliver()

    def _commit(self, change: Callable[[], Sequence[journal.Record]]) -> bool:
        """Makes a change and writes its records in one transaction; returns whether there were any.

        If that fails, no further change is made.
        """
        with self._condition:
            if self._failure is not None:
                return False
            try:
                if new_records := change():
                    self._journal.write(*new_records)
            except BaseException as error:  # an interrupt too: the population may be ahead of the journal
                self._fail(error)
                raise
            return bool(new_records)

    def _apply_next(self) -> Sequence[journal.Record]:
        """Applies one finished iteration, in order if the run is ordered, and issues another.

        One iteration is one commit, so a new version is at most one iteration ahead of the journal. An ordered run
        that was stopped or paused applies no more, as after a crash.
        """
        ordered, applied_count = self._config.ordered, self._state.applied_count
        iteration = applied_count + 1 if ordered else next(iter(self._finished), 0)
        is_halted = ordered and (self._stop_signal.is_set() or self._control_state.is_paused)
        if is_halted or iteration not in self._finished:
            return ()
        new_records = list(self._state.apply(self._finished.pop(iteration)))
        del self._in_flight[iteration]
        self._stored_calls.pop(iteration, None)
        seed = f"{self._config.seed}/{iteration}/due"
        actions = self._schedule.plan_actions(applied_count + 1, self._state.islands, seed)
        new_records += self._state.apply_actions(iteration, actions) if actions else ()
        # Without threads, `Island.request_mutation` runs single iterations and issues each one itself.
        return new_records + list(self._fill_window() if self._threads else ())

    def _fill_window(self) -> Sequence[journal.Record]:
        """Reads the inbox and fills the window within the limits."""
        new_records = list(self._control_state.read_commands(self._last_iteration))
        while len(self._in_flight) < self._window and not self._control_state.is_paused and not self._get_stop_reason():
            limits = self._compute_max_evaluations(), self._compute_max_calls()
            if 0 in limits:
                break
            island = self._state.get_island(self._schedule.choose_island(self._last_iteration + 1))
            new_records.append(self._issue(island, *limits))
        return new_records

    def _issue(self, island: Island, *limits: int | None) -> journal.Record:
        self._last_iteration = iteration = self._last_iteration + 1
        self._state.rng.seed(f"{self._config.seed}/{iteration}/pick")
        selection, advice = island.population.select(), dict(self._control_state.settings)
        if self._config.learner is not None:
            advice |= normalize_json(self._config.learner.advise(Random(f"{self._config.seed}/{iteration}/advise")))
        pending = archipelago.PendingIteration(
            island.index, island.epoch, iteration, self._state.applied_count, selection, advice, *limits
        )
        self._in_flight[iteration] = pending
        self._ready.append(pending)
        return records.make_issued_record(pending)

    def _compute_max_evaluations(self) -> int | None:
        """Returns a share of the evaluations that are neither used nor reserved, so that the budget holds.

        With a budget in seconds, at most the rate of evaluations so far, times the seconds left and one more.
        """
        budget, usage = self._control_state.budget, self.usage
        reserved = sum(pending.max_evaluations or 0 for pending in self._in_flight.values())
        share = self._compute_share(budget.evaluations, usage.evaluations + reserved, 1)
        if budget.seconds is None or not usage.evaluations or not usage.seconds:
            return share
        count = 1 + int(
            (1 + max(0.0, budget.seconds - usage.seconds)) * usage.evaluations / usage.seconds / self._window
        )
        return count if share is None else min(share, count)

    def _compute_max_calls(self) -> int | None:
        """Returns a share of the LLM calls that are neither used nor reserved: two if possible, for one repair."""
        reserved = sum(pending.max_calls or 1 for pending in self._in_flight.values())  # version 0.1 stored none
        return self._compute_share(self._control_state.budget.calls, self.usage.cost.calls + reserved, 2)

    def _compute_share(self, limit: int | None, used: int, min_share: int) -> int | None:
        remaining = 0 if limit is None else max(0, limit - used)
        return None if limit is None else min(remaining, max(min_share, remaining // self._window))

    def _is_time_over(self) -> bool:
        seconds = self._control_state.budget.seconds
        return seconds is not None and self._config.clock() - self._started_at >= seconds

    def _get_stop_reason(self) -> str | None:
        if self._stop_signal.is_set():
            return self._stop_signal.reason
        state, usage = self._state, self.usage
        usage.iterations, usage.seconds = self._last_iteration, self._config.clock() - self._started_at
        best = state.best.evaluation if state.best else None
        progress = control.RunProgress(state.applied_count, best.score if best else None, state.last_improved)
        max_idle = MAX_IDLE_LLM_ITERATIONS if usage.cost.calls else MAX_IDLE_ITERATIONS
        if self._control_state.budget.evaluations is not None and state.idle_iterations >= max_idle:
            return f"no new candidate to evaluate in {max_idle} iterations; {state.last_failure or ''}".removesuffix(
                "; "
            )
        reasons = (rule(progress) for rule in self._config.stop_rules)
        return self._control_state.budget.find_exhausted_limit(usage) or next(filter(None, reasons), None)

    def _run_iteration_on(self, island: Island) -> function.Function:
        """Runs one iteration on one island in the calling thread and returns its best child (`request_mutation`)."""
        self._ensure_loaded()
        with self._condition:
            self._commit(lambda: [self._issue(self._state.islands[island.index], None, None)])
            pending = self._ready.pop()
        outcome = IterationWorker(self._tools, pending, StoredCalls()).run()
        self._finish(outcome)
        evaluated = [fn for fn, _ in outcome.children if fn.evaluation is not None]
        if not evaluated:
            raise errors.RunFailed(f"The iteration has no evaluated child: {outcome.failure or 'none was proposed'}.")
        return max(evaluated, key=function.get_fitness)
