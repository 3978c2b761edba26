"""The LLM of a run: made by name, then wrapped with the journal, the budget and a limit of failures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from atoll import cluster, config, control, errors, journal, llm, store, system
from atoll.evaluation import ZERO_COST, Cost
from atoll.llm import budget as llm_budget
from atoll.llm import ensemble, registry
from atoll.llm.budget import DEFAULT_MAX_TOKENS, CallPrice
from atoll.runs.data_export import iter_responses
from atoll.runs.summary import find_end_record, find_run

type LLMFactory = Callable[[config.RunConfig], llm.LLM | None]

MAX_FAILURES = 10  # in a row, after the retries of each call
MAX_REFUSALS = 3  # in a row, of errors that no retry can fix: a wrong key, a wrong name
_REFUSAL_STATUSES = (401, 402, 403, 404)
_PROMPT_CHARS = 3000  # typical length of a prompt without its programs
_PROGRAMS_SHOWN = 3  # typical number of programs in a prompt
_CHARS_PER_TOKEN = 4


def make_llm(
    run_config: config.RunConfig, run_store: store.Store | None = None, budget: control.Budget | None = None
) -> llm.LLM | None:
    """Returns the LLM that the configuration names; None for `none`.

    With a budget (by default that of the configuration) in tokens or dollars, its responses have a maximum length.

    `recorded:NAME` plays back a recording: a file, or a run of the store if no such file exists.

    Raises:
        SetupError: The name is invalid, or its API key is missing.
        NotFound: Neither a file nor a run has the name of the recording.
    """
    if run_store is not None and (run_id := find_recorded_run(run_config, run_store)):
        return llm.RecordedLLM(iter_responses(run_store, run_id), name=f"Run {run_id}")
    options, budget = run_config.llm.to_options(), budget or run_config.get_budget()
    if budget.seconds is not None:  # waiting for a server longer than the run lasts is useless
        options["outage_seconds"] = min(options["outage_seconds"], budget.seconds)
    budgets = (budget, config.parse_budget(run_config.run.island_budget))
    if any(limits.tokens is not None or limits.usd is not None for limits in budgets):
        options["max_tokens"] = options["max_tokens"] or DEFAULT_MAX_TOKENS
    return llm.make_llm(run_config.run.llm, **options)


def describe_unused_options(run_config: config.RunConfig) -> str:
    """Returns a sentence about options of LLMs that the run does not use, for its header; empty if there are none."""
    used_names = {name for name, _ in registry.split_names(run_config.run.llm)}
    unused_names = [name for name in run_config.llm.models if name not in used_names]
    if not unused_names or used_names == {"none"}:  # without an LLM the header says that none is used
        return ""
    return f"the run does not use {', '.join(unused_names)}, so its options in llm.models have no effect"


def find_recorded_run(run_config: config.RunConfig, run_store: store.Store) -> str | None:
    """Returns the run of the store whose recording the configuration names; None if it names another kind of LLM.

    Raises:
        NotFound: Neither a file nor a run has that name.
    """
    scheme, _, source = (part.strip() for part in run_config.run.llm.partition(":"))
    is_run = scheme.lower() in ("replay", "recorded") and source and not Path(source).exists()
    return find_run(run_store, source) if is_run else None


def fix_recorded_run(run_config: config.RunConfig, run_store: store.Store) -> config.RunConfig:
    """Replaces the name of a recorded run by its id: `latest` would mean the new run itself when it resumes."""
    run_id = find_recorded_run(run_config, run_store)
    if run_id is None:
        return run_config
    return replace(run_config, run=run_config.run.model_copy(update={"llm": f"recorded:{run_id}"}))


@dataclass(frozen=True, slots=True)
class RunLLM:
    """The LLM of a run with its limits.

    Attributes:
        journaled_llm: For the system: stored responses first, then calls within the budget, until it fails too often.
        base_llm: The LLM itself, as the factory made it.
    """

    journaled_llm: llm.LLM
    base_llm: llm.LLM
    failure_limit: "LLMFailureLimit"
    call_price: CallPrice
    budget: llm.LLMBudget
    call_tracker: llm.CallTracker

    def connect(
        self,
        evolver: system.SystemEvolver,
        num_islands: int,
        get_budget: Callable[[], control.Budget],
        run_journal: journal.Journal,
    ) -> None:
        """Connects the LLM and its run, which is made later.

        The LLM stops the run when it keeps failing or its budget is used. A run that ends stops waiting for mailboxes.
        """
        self.failure_limit.on_stop = lambda reason: evolver.stop(f"failed: {reason}")
        self.failure_limit.is_stopped = lambda: evolver.has_failed
        evolver.find_failure = self.failure_limit.describe_outage
        for member in _list_members(self.base_llm):
            if isinstance(member, llm.MailboxLLM):
                member.is_stopped = lambda: bool(evolver.reason)
        self.budget.num_islands = num_islands
        self.budget.get_budget = get_budget
        self.budget.on_exhausted = evolver.stop
        self.budget.journal = journal.CheckedJournal(run_journal)


def make_run_llm(
    base_llm: llm.LLM,
    run_config: config.RunConfig,
    budget: control.Budget,
    run_store: store.Store,
    run_id: str | None,
    *,
    needs_price: bool,
) -> RunLLM:
    """Wraps an LLM with the journal and the limits of a run.

    A call passes the journal, the budget, the price, the token counter, the failure limit and the call tracker, in this
    order.

    Args:
        run_id: The run to resume, whose earlier calls count; None for a new run.
        needs_price: Whether a budget in dollars needs a known price. False: the LLM reports the dollars of each call.

    Raises:
        SetupError: The price is unknown and the budget is in dollars, a setting is invalid, or no server is there.
    """
    call_tracker = llm.CallTracker(base_llm, run_config.run.llm)
    failure_limit = LLMFailureLimit(call_tracker)
    if run_id and (end_record := find_end_record(run_store, run_id)):
        failure_limit.earlier_outage = system.find_outage(str(end_record.data["reason"]))
    configured_price = run_config.llm.get_price()
    call_price = _get_call_price(base_llm, configured_price)
    if needs_price:
        _check_dollar_budget(run_config, budget, call_price)
    counting_llm: llm.LLM = llm.TokenCountingLLM(failure_limit)
    priced_llm = llm.PricedLLM(counting_llm, configured_price) if configured_price else counting_llm
    calls_budget = _make_llm_budget(run_config, budget, run_store, run_id)
    metered_llm = llm.MeteredLLM(priced_llm, calls_budget, call_price.max_cost)
    if run_id is None and budget.iterations != 0:  # a resume may need no calls
        for member in _list_members(base_llm):
            if isinstance(member, llm.HostedLLM):
                member.check_connection()
    return RunLLM(llm.JournaledLLM(metered_llm), base_llm, failure_limit, call_price, calls_budget, call_tracker)


def add_routing(
    evolver_config: cluster.EvolverConfig, base_llm: llm.EnsembleLLM, settings: config.LLMSettings
) -> cluster.EvolverConfig:
    """Lets every iteration choose among the LLMs of an ensemble."""
    router = ensemble.make_router(settings.route, base_llm, plateau_iterations=settings.plateau_steps)
    islands = evolver_config.island_config
    proposer = llm.RoutedProposer(islands.mutation_engine, ensemble.find_cheapest(base_llm))
    return replace(
        evolver_config,
        island_config=replace(islands, mutation_engine=proposer),
        learner=router if evolver_config.learner is None else ensemble.CombinedLearner(evolver_config.learner, router),
    )


def _list_members(base_llm: llm.LLM) -> list[llm.LLM]:
    return [member.llm for member in base_llm.members] if isinstance(base_llm, llm.EnsembleLLM) else [base_llm]


def _get_call_price(base_llm: llm.LLM, configured_price: llm.Price | None) -> CallPrice:
    """Returns the price of a call; of an ensemble, the highest price and the longest response."""
    max_tokens, prices, system_tokens = list[int | None](), list[llm.Price | None](), 0
    for member in _list_members(base_llm):
        hosted = member if isinstance(member, llm.HostedLLM) else None
        max_tokens.append(hosted.max_tokens if hosted else None)
        prices.append(configured_price or (hosted.price if hosted else None))
        system_tokens = max(system_tokens, len((hosted.system_message or "").encode()) if hosted else 0)
    known_prices = [price for price in prices if price is not None]
    price = None
    if len(known_prices) == len(prices):
        price = llm.Price(max(p.input_mtok for p in known_prices), max(p.output_mtok for p in known_prices))
    return CallPrice(price, max(limit or DEFAULT_MAX_TOKENS for limit in max_tokens), system_tokens)


def _check_dollar_budget(run_config: config.RunConfig, budget: control.Budget, call_price: CallPrice) -> None:
    is_recorded = run_config.run.llm.lower().startswith(("replay:", "recorded:"))
    island_usd = config.parse_budget(run_config.run.island_budget).usd
    has_limit = budget.usd is not None or island_usd is not None
    if has_limit and call_price.price is None and not is_recorded:
        raise errors.SetupError(
            f"The price of {run_config.run.llm} is unknown, so a budget in dollars cannot be enforced. Set "
            "llm.price_in and llm.price_out (USD per million tokens), or give the budget in tokens or calls."
        )


def _make_llm_budget(
    run_config: config.RunConfig, budget: control.Budget, run_store: store.Store, run_id: str | None
) -> llm.LLMBudget:
    per_island = config.parse_budget(run_config.run.island_budget)
    if any(limit is not None for limit in (per_island.iterations, per_island.evaluations, per_island.seconds)):
        raise errors.SetupError(
            f"run.island_budget is {run_config.run.island_budget!r}. Give dollars, tokens or calls: '$0.1,50calls'."
        )
    used_by_island = read_charges(run_store, run_id) if run_id else {}
    return llm.LLMBudget(budget, per_island, sum(used_by_island.values(), ZERO_COST), used_by_island)


def read_charges(run_store: store.Store, run_id: str) -> dict[int, Cost]:
    """Returns the cost of all LLM requests of a run by island, including those that were in flight at a crash."""
    return llm_budget.read_charges(run_store.journal(run_id).read_kinds(journal.CHARGED, journal.RESPONSE))


def describe_cost(call_price: CallPrice, budget: control.Budget, initial_program: str) -> str:
    """Returns an estimate of the cost of the calls, for the header of a run."""
    if call_price.price is None:
        return "price unknown: tokens are counted, dollars are not"
    prompt_chars = len(initial_program) * _PROGRAMS_SHOWN + _PROMPT_CHARS
    # `max_cost` counts each byte as a token, so a text of N bytes stands for a prompt of N tokens.
    estimate = call_price.max_cost("x" * (prompt_chars // _CHARS_PER_TOKEN))
    description = f"about ${estimate.usd:.4f} per call with a response of {call_price.max_tokens:,} tokens"
    if budget.usd is not None and estimate.usd > 0:
        return f"{description}; ${budget.usd:g} pays for about {int(budget.usd / estimate.usd):,} calls"
    calls = min((limit for limit in (budget.calls, budget.iterations) if limit is not None), default=None)
    return description if calls is None else f"{description}; {calls:,} calls cost about ${calls * estimate.usd:.2f}"


class LLMFailureLimit:
    """An LLM that gives up after too many failures in a row; thread-safe.

    Attributes:
        on_stop: Called once with the reason, by the thread of the last failure, so that other threads start nothing.
        is_stopped: Returns whether the run has failed, so that its responses could not be stored.
        stop_reason: Why it gave up; empty until then.
        earlier_outage: Outage with which a resumed run ended before; empty if there was none.
    """

    def __init__(self, base_llm: llm.LLM, on_stop: Callable[[str], None] = lambda reason: None) -> None:
        self._llm, self.on_stop, self._lock = base_llm, on_stop, Lock()
        self.is_stopped: Callable[[], bool] = lambda: False
        self._failures = self._refusals = 0
        self._has_responded = False
        self._last_error: Exception = llm.LLMError("")
        self.stop_reason = self.earlier_outage = ""

    def __call__(self, prompt: str) -> llm.Response:
        if self.stop_reason or self.is_stopped():
            raise llm.LLMError(self.stop_reason or "The run has failed, so the LLM is not called.", is_down=True)
        try:
            response = self._llm(prompt)
        except Exception as error:
            self._count_failure(error)
            raise
        with self._lock:
            self._failures = self._refusals = 0
            self._has_responded = True
        return response

    def describe_outage(self) -> str:
        """Returns a sentence if the LLM was unreachable at the end; empty if it was not.

        It was if it never responded, or if the last call ended with an outage: no connection, a timeout, a wrong key.
        A resume without calls changes nothing.
        """
        with self._lock:
            if not self._failures:
                return "" if self._has_responded else self.earlier_outage
            if self._has_responded and not _is_outage(self._last_error):
                return ""
            calls = "call" if self._failures == 1 else f"{self._failures} calls"
            which = f"the last {calls}" if self._has_responded else f"its {'only ' * (self._failures == 1)}{calls}"
            return f"the LLM did not answer {which}: {str(self._last_error).rstrip('.')}."

    def _count_failure(self, error: Exception) -> None:
        is_refusal = isinstance(error, llm.LLMError) and error.status in _REFUSAL_STATUSES
        is_down = isinstance(error, llm.LLMError) and error.is_down
        with self._lock:
            self._failures, self._last_error = self._failures + 1, error
            self._refusals = self._refusals + 1 if is_refusal else 0
            is_over = is_down or self._failures >= MAX_FAILURES or self._refusals >= MAX_REFUSALS
            if not is_over or self.stop_reason:
                return
            repetition = f" {self._failures} times in a row" if self._failures > 1 else ""
            self.stop_reason = f"the LLM failed{repetition}: {error}"
        self.on_stop(self.stop_reason)


def _is_outage(error: Exception) -> bool:
    if isinstance(error, llm.LLMError):
        return error.is_transient or error.is_down or error.status in _REFUSAL_STATUSES
    return isinstance(error, OSError)
