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
from atoll.candidate import JSON, Candidate, digest, plain
from atoll.cluster import records
from atoll.cluster.config import EvolverConfig
from atoll.cluster.island import Island
from atoll.cluster.memo import Memo
from atoll.cluster.population import ALL, Population
from atoll.cluster.replay import Replay
from atoll.cluster.schedules import RoundRobin
from atoll.cluster.steering import POLL_SECONDS, Steering
from atoll.cluster.work import Bench, Done, Stored, Work

IDLE_STEPS = 2000  # so many steps in a row with nothing new to judge end a run that waits for its evaluations


class Evolver:
    """Makes islands evolve, on as many threads as it is given."""

    def __init__(self, config: EvolverConfig) -> None:
        shared = config.island_config
        turns = RoundRobin(shared.num_islands, reset_seconds=config.reset_period, clock=config.clock)
        self._schedule = config.schedule or turns
        config.check(self._schedule)
        self._config, self._started_at = config, config.clock()
        self._window = config.window or (32 if config.ordered else config.num_parallel)
        self._journal, self._memo, self._mail = journal.Guarded(config.journal), Memo(), profiler.Mail()
        self._switch, self._changed = control.Switch(), Condition()
        self._population = Population(config, self._mail, self._step_on)
        self._steering = Steering(config, self._population, self._switch)
        self._bench = Bench(config, function.lift(shared.mutation_engine), self._journal, self._memo)
        self._threads: list[Thread] = []
        self._at_work, self._step, self._is_open = config.num_parallel, 0, False
        self._ready: deque[archipelago.Ticket] = deque()
        self._flying: dict[int, archipelago.Ticket] = {}
        self._waiting: dict[int, Done] = {}
        self._stored: dict[int, Stored] = {}
        self._failure: BaseException | None = None

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[archipelago.EvolverEvent]) -> profiler.Remove:
        return self._population.profilers.use(profiler_fn)

    @property
    def islands(self) -> Sequence[Island]:
        return tuple(self._population.islands)

    @property
    def spending(self) -> control.Spending:
        return self._population.spending

    @property
    def reason(self) -> str:
        """Why the run stopped; empty while it runs."""
        return self._switch.reason

    def still(self) -> Condition:
        """Holds the run still while somebody looks at its pools: `with evolver.still(): ...`."""
        return self._changed

    def best_fn(self) -> function.Function:
        """Returns the function with the best evaluation ever kept, on whatever island.

        Raises:
            NotFound: Nothing was kept yet.
        """
        if self._population.best is None:
            raise errors.NotFound("The run has not begun.")
        return self._population.best

    def start(self) -> None:
        """Begins, or goes on where the journal ends, and returns at once.

        Raises:
            SetupError: It was started before.
        """
        if self._threads:
            raise errors.SetupError("This evolver was started before: make a new one on the same journal to go on.")
        names = [f"atoll-{number}" for number in range(self._config.num_parallel)]
        with self._changed:  # nobody joins a thread that has not started
            self._threads = [Thread(target=self._run_worker, name=name, daemon=True) for name in names]
            for thread in self._threads:
                thread.start()

    def join(self) -> None:
        """Waits for the end.

        Raises:
            RunFailed: The run ended before its time; what was written is saved.
            SetupError: The set-up does not fit the journal, the schedule or itself.
        """
        for thread in (each for each in self._threads if each.ident is not None):  # Ctrl-C may come before all started
            thread.join()
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str = "stopped") -> None:
        """Lets the steps at work finish and returns when all is saved; from a profiler, returns at once."""
        self._switch.stop(reason)
        with self._changed:
            self._changed.notify_all()
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
        ended = errors.attempt(self._work, passing=())
        with self._changed:
            if isinstance(ended, errors.Caught):
                self._fail(ended.error)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Ends the run; nothing more is applied, since the journal may lack what the population has."""
        if self._failure is None:
            self._failure = error
            if not isinstance(error, errors.AtollError):
                self._failure = errors.RunFailed(f"The run broke: {error!r}")
                self._failure.__cause__ = error
            self._switch.stop(f"failed: {error}")
            self._mail.discard()
            errors.attempt(self._write_end, passing=())  # if it still can

    def _work(self) -> None:
        self._open()
        self._commit(self._issue_all)
        while ticket := self._next():
            self._tell(Work(self._bench, ticket, self._stored.get(ticket.step) or Stored()).do())
        with self._changed:
            self._at_work -= 1
            if not self._at_work and self._failure is None:
                self._write_end()
        self._mail.deliver()

    def _write_end(self) -> None:
        self._journal.write(journal.Record("ended", self._step, ALL, {"reason": self._switch.reason}))

    def _open(self) -> None:
        """Folds the journal, or founds the islands where it holds none; the first who comes does it, others wait."""
        self._commit(lambda: () if self._is_open else self._load())
        self._mail.deliver()

    def _load(self) -> Sequence[journal.Record]:
        replay = Replay(self._population, self._memo, self._setup).fold(self._journal.read())
        self._mail.discard()
        self._steering.recall(replay.controlled)
        self._step, self._stored, self._is_open = replay.last_step, replay.stored, True
        self._flying = dict(sorted(replay.tickets.items()))
        self._ready.extend(self._flying.values())
        return self._found() if replay.setup is None else ()

    @property
    def _setup(self) -> dict[str, JSON]:
        """What a resume must not change, since the journal means something else under it."""
        config = self._config
        shared = config.island_config
        initial = digest(str(shared.initial_fn.skeleton()))[:12]
        setup: dict[str, JSON] = {"num_islands": shared.num_islands, "ordered": config.ordered, "initial": initial}
        return setup | ({"seed": config.seed, "window": self._window} if config.ordered else {})

    def _found(self) -> Sequence[journal.Record]:
        initial = self._config.island_config.initial_fn
        candidate = Candidate("0.0", str(initial.skeleton()))
        if str(self._population.settled(candidate, None).skeleton()) != candidate.content:
            raise errors.SetupError("make_skeleton does not give back the initial function's text: pass one that does.")
        ledger = journal.Ledger(0, ALL, self._journal, self._stored[0].replies)
        token = journal.Ledger.current.set(ledger)
        trial = initial.clone(initial.skeleton())
        trial.evaluate()
        journal.Ledger.current.reset(token)
        found = trial.evaluation or evaluation.failed("nothing was found")
        found = replace(found, cost=found.cost + ledger.cost)
        if found.failure is not None:
            raise errors.RunFailed(f"The initial function has no score: {found.failure}")
        self._memo.put(digest(candidate.content), 0, found)
        (record,) = self._population.found(initial.settle(candidate, found))
        return [record._replace(data={**record.data, "setup": self._setup})]

    def _next(self) -> archipelago.Ticket | None:
        """Waits for a ticket; None when the run is over. What is ready when somebody stops the run stays begun."""
        with self._changed:
            while not self._switch.is_set():
                if self._ready:
                    return self._ready.popleft()
                if not self._flying and not self._steering.is_paused:
                    self._end_or_go_on()
                    continue
                self._changed.wait(POLL_SECONDS if self._steering.is_paused else None)
                if self._steering.is_paused:
                    self._commit(self._issue_all)
                    while self._commit(self._apply_next):
                        pass
        return None

    def _end_or_go_on(self) -> None:
        """Gives what was posted meanwhile a last chance, then ends the run if there is nothing left to do."""
        self._commit(lambda: self._steering.read(self._step, now=True))
        self._commit(self._issue_all)
        if not self._ready and not self._steering.is_paused:
            self._switch.stop(self._why_stop() or "nothing left to do")
            self._changed.notify_all()

    def _tell(self, done: Done) -> None:
        with self._changed:
            self._waiting[done.ticket.step] = done
            while self._commit(self._apply_next):
                pass
            if len(self._ready) > 1 or not self._flying:  # with one, this worker takes it
                self._changed.notify_all()
        self._mail.deliver()

    def _commit(self, change: Callable[[], Sequence[journal.Record]]) -> bool:
        """Makes a change and writes all its records in one transaction; says whether there were any.

        If that fails, nobody changes anything any more.
        """
        with self._changed:
            if self._failure is not None:
                return False
            try:
                if written := change():
                    self._journal.write(*written)
            except BaseException as error:  # an interrupt too: the population may be ahead of the journal
                self._fail(error)
                raise
            return bool(written)

    def _apply_next(self) -> Sequence[journal.Record]:
        """Applies one step that is done, and in turn if turns count, and issues another.

        One step is one commit: a version that a step has set may be one step ahead of the journal, never two.
        An ordered run that was stopped or paused applies no more: it goes on as if it had been cut here.
        """
        ordered, applied = self._config.ordered, self._population.applied
        step = applied + 1 if ordered else next(iter(self._waiting), 0)
        if step not in self._waiting or (ordered and (self._switch.is_set() or self._steering.is_paused)):
            return ()
        written = list(self._population.apply(self._waiting.pop(step)))
        del self._flying[step]
        self._stored.pop(step, None)
        actions = self._schedule.due(applied + 1, self._population.islands, f"{self._config.seed}/{step}/due")
        written += self._population.carry_out(step, actions) if actions else ()
        return written + list(self._issue_all() if self._threads else ())  # an island asked for one step gets one

    def _issue_all(self) -> Sequence[journal.Record]:
        """Reads the inbox and fills the window, as far as the limits allow."""
        written = list(self._steering.read(self._step))
        while len(self._flying) < self._window and not self._steering.is_paused and not self._why_stop():
            allowance = self._allowance()
            if allowance == 0:
                break
            written.append(self._issue(self._population.island(self._schedule.island(self._step + 1)), allowance))
        return written

    def _issue(self, island: Island, allowance: int | None) -> journal.Record:
        self._step += 1
        self._population.rng.seed(f"{self._config.seed}/{self._step}/pick")
        pick, advice = island.pool.pick(), dict(self._steering.settings)
        if self._config.learner is not None:
            advice |= plain(self._config.learner.advise(Random(f"{self._config.seed}/{self._step}/advise")))
        seen = self._population.applied
        ticket = archipelago.Ticket(island.index, island.epoch, self._step, seen, pick, advice, allowance)
        self._flying[self._step] = ticket
        self._ready.append(ticket)
        return records.begun(ticket)

    def _allowance(self) -> int | None:
        """Returns a share of the evaluations that are neither used nor promised, so that the budget holds.

        A step in flight may call a model once more, so it counts as a call that is promised.
        """
        budget, flying = self._steering.budget, self._flying.values()
        if flying and budget.calls is not None and self.spending.cost.calls + len(flying) >= budget.calls:
            return 0
        if budget.evaluations is None:
            return None
        left = budget.evaluations - self.spending.evaluations - sum(ticket.allowance or 0 for ticket in flying)
        return max(1, left // self._window) if left > 0 else 0

    def _why_stop(self) -> str | None:
        if self._switch.is_set():
            return self._switch.reason
        population, spending = self._population, self.spending
        spending.iterations, spending.seconds = self._step, self._config.clock() - self._started_at
        best = population.best.evaluation if population.best else None
        now = control.Progress(population.applied, best.score if best else None, population.last_improved)
        if self._steering.budget.evaluations is not None and population.idle >= IDLE_STEPS:
            return f"nothing new to judge in {IDLE_STEPS} steps{population.fault and f'; {population.fault}'}"
        reasons = (rule(now) for rule in self._config.stop_rules)
        return self._steering.budget.exhausted(spending) or next((reason for reason in reasons if reason), None)

    def _step_on(self, island: Island) -> function.Function:
        """Takes one step on one island in the calling thread, whatever the schedule says."""
        self._open()
        with self._changed:
            self._commit(lambda: [self._issue(self._population.islands[island.index], None)])
            ticket = self._ready.pop()
        done = Work(self._bench, ticket, Stored()).do()
        self._tell(done)
        scored = [fn for fn, _ in done.children if fn.evaluation is not None]
        if not scored:
            raise errors.RunFailed(f"The step made no child that was judged: {done.failure or 'none was proposed'}.")
        return max(scored, key=function.rank_of)
