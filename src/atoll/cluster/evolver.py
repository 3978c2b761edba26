"""The evolver: workers, one lock, one journal. `window` tickets are in flight; applying one issues one.

start:  found or resume; issue until `window` fly; write(begun ...)
worker: ticket = next; while ticket: tell(work(ticket)); ticket = next
tell:   [lock] apply what is next in turn, issue as many, write(applied, what it caused, begun) in ONE commit
        then deliver the events
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from threading import Condition, Thread, current_thread

from atoll import archipelago, control, errors, evaluation, function, journal, profiler
from atoll.candidate import JSON, Candidate, content_hash, normalize_json
from atoll.cluster import records
from atoll.cluster.archipelago_state import ALL_ISLANDS, ArchipelagoState, Island
from atoll.cluster.config import EvolverConfig
from atoll.cluster.control_state import POLL_SECONDS, ControlState
from atoll.cluster.iteration import EvaluationCache, IterationOutcome, IterationWorker, StoredCalls, WorkerTools
from atoll.cluster.recovery import JournalRecovery
from atoll.cluster.schedules import RoundRobin

MAX_IDLE_ITERATIONS = 2000  # so many steps in a row with nothing new to judge end a run that waits for its evaluations


class Evolver:
    """Makes islands evolve, on as many threads as it is given."""

    def __init__(self, config: EvolverConfig) -> None:
        island_config = config.island_config
        default_schedule = RoundRobin(island_config.num_islands, reset_seconds=config.reset_period, clock=config.clock)
        self._schedule = config.schedule or default_schedule
        config.check(self._schedule)
        self._config, self._started_at = config, config.clock()
        self._window = config.window or (32 if config.ordered else config.num_parallel)
        self._journal, self._cache, self._events = (
            journal.CheckedJournal(config.journal),
            EvaluationCache(),
            profiler.EventQueue(),
        )
        self._stop_signal, self._condition = control.StopSignal(), Condition()
        self._state = ArchipelagoState(config, self._events, self._run_iteration_on)
        self._control_state = ControlState(config, self._state, self._stop_signal)
        self._tools = WorkerTools(
            config, function.as_proposer(island_config.mutation_engine), self._journal, self._cache
        )
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
        """Why the run stopped; empty while it runs."""
        return self._stop_signal.reason

    def lock(self) -> Condition:
        """Holds the run still while somebody looks at its pools: `with evolver.still(): ...`."""
        return self._condition

    def best_fn(self) -> function.Function:
        """Returns the function with the best evaluation ever kept, on whatever island.

        Raises:
            NotFound: Nothing was kept yet.
        """
        if self._state.best is None:
            raise errors.NotFound("The run has not begun.")
        return self._state.best

    def start(self) -> None:
        """Begins, or goes on where the journal ends, and returns at once.

        Raises:
            SetupError: It was started before.
        """
        if self._threads:
            raise errors.SetupError("This evolver was started before: make a new one on the same journal to go on.")
        names = [f"atoll-{index}" for index in range(self._config.num_parallel)]
        with self._condition:  # nobody joins a thread that has not started
            self._threads = [Thread(target=self._run_worker, name=name, daemon=True) for name in names]
            for thread in self._threads:
                thread.start()

    def join(self) -> None:
        """Waits for the end.

        Raises:
            RunFailed: The run ended before its time; what was written is saved.
            SetupError: The set-up does not fit the journal, the schedule or itself.
        """
        for thread in (
            worker for worker in self._threads if worker.ident is not None
        ):  # Ctrl-C may come before all started
            thread.join()
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str = "stopped") -> None:
        """Lets the steps at work finish and returns when all is saved; from a profiler, returns at once."""
        self._stop_signal.stop(reason)
        with self._condition:
            self._condition.notify_all()
        if current_thread() not in self._threads:
            self.join()

    def run(self) -> None:
        """Starts and waits for the end; Ctrl-C lets the steps at work finish, saves, and is raised again."""
        self.start()
        try:
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
        """Ends the run; nothing more is applied, since the journal may lack what the population has."""
        if self._failure is None:
            self._failure = error
            if not isinstance(error, errors.AtollError):
                self._failure = errors.RunFailed(f"The run broke: {error!r}")
                self._failure.__cause__ = error
            self._stop_signal.stop(f"failed: {error}")
            self._events.discard()
            errors.capture(self._write_end, reraise=())  # if it still can

    def _run_iterations(self) -> None:
        self._ensure_loaded()
        self._commit(self._fill_window)
        while pending := self._wait_for_next():
            self._finish(
                IterationWorker(self._tools, pending, self._stored_calls.get(pending.iteration) or StoredCalls()).run()
            )
        with self._condition:
            self._active_workers -= 1
            if not self._active_workers and self._failure is None:
                self._write_end()
        self._events.deliver()

    def _write_end(self) -> None:
        self._journal.write(
            journal.Record("ended", self._last_iteration, ALL_ISLANDS, {"reason": self._stop_signal.reason})
        )

    def _ensure_loaded(self) -> None:
        """Folds the journal, or founds the islands where it holds none; the first who comes does it, others wait."""
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
        """What a resume must not change, since the journal means something else under it."""
        config = self._config
        island_config = config.island_config
        initial = content_hash(str(island_config.initial_fn.skeleton()))[:12]
        setup: dict[str, JSON] = {
            "num_islands": island_config.num_islands,
            "ordered": config.ordered,
            "initial": initial,
        }
        return setup | ({"seed": config.seed, "window": self._window} if config.ordered else {})

    def _add_initial(self) -> Sequence[journal.Record]:
        initial = self._config.island_config.initial_fn
        candidate = Candidate("0.0", str(initial.skeleton()))
        if str(self._state.make_evaluated_fn(candidate, None).skeleton()) != candidate.content:
            raise errors.SetupError("make_skeleton does not give back the initial function's text: pass one that does.")
        call_cache = journal.CallCache(0, ALL_ISLANDS, self._journal, self._stored_calls[0].responses)
        token = journal.CallCache.current.set(call_cache)
        fn = initial.clone(initial.skeleton())
        fn.evaluate()
        journal.CallCache.current.reset(token)
        result = fn.evaluation or evaluation.failed("nothing was found")
        result = replace(result, cost=result.cost + call_cache.cost)
        if result.failure is not None:
            raise errors.RunFailed(f"The initial function has no score: {result.failure}")
        self._cache.put(content_hash(candidate.content), 0, result)
        (record,) = self._state.add_initial(initial.with_evaluation(candidate, result))
        return [record._replace(data={**record.data, "setup": self._setup})]

    def _wait_for_next(self) -> archipelago.PendingIteration | None:
        """Waits for a ticket; None when the run is over. What is ready when somebody stops the run stays begun."""
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
        """Gives what was posted meanwhile a last chance, then ends the run if there is nothing left to do."""
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
            if len(self._ready) > 1 or not self._in_flight:  # with one, this worker takes it
                self._condition.notify_all()
        self._events.deliver()

    def _commit(self, change: Callable[[], Sequence[journal.Record]]) -> bool:
        """Makes a change and writes all its records in one transaction; says whether there were any.

        If that fails, nobody changes anything any more.
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
        """Applies one step that is done, and in turn if turns count, and issues another.

        One step is one commit: a version that a step has set may be one step ahead of the journal, never two.
        An ordered run that was stopped or paused applies no more: it goes on as if it had been cut here.
        """
        ordered, applied_count = self._config.ordered, self._state.applied_count
        iteration = applied_count + 1 if ordered else next(iter(self._finished), 0)
        if iteration not in self._finished or (
            ordered and (self._stop_signal.is_set() or self._control_state.is_paused)
        ):
            return ()
        new_records = list(self._state.apply(self._finished.pop(iteration)))
        del self._in_flight[iteration]
        self._stored_calls.pop(iteration, None)
        actions = self._schedule.plan_actions(
            applied_count + 1, self._state.islands, f"{self._config.seed}/{iteration}/due"
        )
        new_records += self._state.apply_actions(iteration, actions) if actions else ()
        return new_records + list(self._fill_window() if self._threads else ())  # an island asked for one step gets one

    def _fill_window(self) -> Sequence[journal.Record]:
        """Reads the inbox and fills the window, as far as the limits allow."""
        new_records = list(self._control_state.read_commands(self._last_iteration))
        while len(self._in_flight) < self._window and not self._control_state.is_paused and not self._get_stop_reason():
            max_evaluations = self._compute_max_evaluations()
            if max_evaluations == 0:
                break
            new_records.append(
                self._issue(
                    self._state.get_island(self._schedule.choose_island(self._last_iteration + 1)), max_evaluations
                )
            )
        return new_records

    def _issue(self, island: Island, max_evaluations: int | None) -> journal.Record:
        self._last_iteration += 1
        self._state.rng.seed(f"{self._config.seed}/{self._last_iteration}/pick")
        selection, advice = island.population.select(), dict(self._control_state.settings)
        if self._config.learner is not None:
            advice |= normalize_json(
                self._config.learner.advise(Random(f"{self._config.seed}/{self._last_iteration}/advise"))
            )
        applied_count = self._state.applied_count
        pending = archipelago.PendingIteration(
            island.index, island.epoch, self._last_iteration, applied_count, selection, advice, max_evaluations
        )
        self._in_flight[self._last_iteration] = pending
        self._ready.append(pending)
        return records.make_issued_record(pending)

    def _compute_max_evaluations(self) -> int | None:
        """Returns a share of the evaluations that are neither used nor promised, so that the budget holds.

        A step in flight may call a model once more, so it counts as a call that is promised.
        """
        budget, in_flight = self._control_state.budget, self._in_flight.values()
        if in_flight and budget.calls is not None and self.usage.cost.calls + len(in_flight) >= budget.calls:
            return 0
        if budget.evaluations is None:
            return None
        remaining_evaluations = (
            budget.evaluations - self.usage.evaluations - sum(pending.max_evaluations or 0 for pending in in_flight)
        )
        return max(1, remaining_evaluations // self._window) if remaining_evaluations > 0 else 0

    def _get_stop_reason(self) -> str | None:
        if self._stop_signal.is_set():
            return self._stop_signal.reason
        state, usage = self._state, self.usage
        usage.iterations, usage.seconds = self._last_iteration, self._config.clock() - self._started_at
        best = state.best.evaluation if state.best else None
        progress = control.RunProgress(state.applied_count, best.score if best else None, state.last_improved)
        if self._control_state.budget.evaluations is not None and state.idle_iterations >= MAX_IDLE_ITERATIONS:
            return (
                f"nothing new to judge in {MAX_IDLE_ITERATIONS} steps{state.last_failure and f'; {state.last_failure}'}"
            )
        reasons = (rule(progress) for rule in self._config.stop_rules)
        return self._control_state.budget.find_exhausted_limit(usage) or next(
            (reason for reason in reasons if reason), None
        )

    def _run_iteration_on(self, island: Island) -> function.Function:
        """Takes one step on one island in the calling thread, whatever the schedule says."""
        self._ensure_loaded()
        with self._condition:
            self._commit(lambda: [self._issue(self._state.islands[island.index], None)])
            pending = self._ready.pop()
        outcome = IterationWorker(self._tools, pending, StoredCalls()).run()
        self._finish(outcome)
        evaluated = [fn for fn, _ in outcome.children if fn.evaluation is not None]
        if not evaluated:
            raise errors.RunFailed(f"The step made no child that was judged: {outcome.failure or 'none was proposed'}.")
        return max(evaluated, key=function.get_fitness)
