"""What a run may spend on its model: reserved before each call, counted after it, told before the first."""

from collections.abc import Callable
from dataclasses import dataclass

from atoll import config, control, errors, llm, store
from atoll.evaluation import ZERO_COST, Cost

# Of a reply whose longest is not known. What it takes beyond that may exceed a budget, by one call for each worker.
DEFAULT_MAX_TOKENS = 4096
_FRAME_TOKENS = 64  # that a service adds to a prompt
_PROMPT_CHARS = 3000  # that a prompt has besides the programs that it shows, about
_PROGRAMS_SHOWN = 3  # programs in a prompt, about


@dataclass(frozen=True, slots=True)
class CallPrice:
    """What one call to a model can cost.

    Attributes:
        price: What its tokens cost; None: that is not known.
        max_tokens: The longest reply.
        is_bounded: Whether that is the model's own limit, and not assumed.
    """

    price: llm.Price | None
    max_tokens: int
    is_bounded: bool

    def max_cost(self, prompt: str) -> Cost:
        """Returns the most that a call can cost: no token is shorter than a byte."""
        tokens = len(prompt.encode("utf-8", "replace")) + _FRAME_TOKENS
        usd = self.price.compute_usd(tokens, self.max_tokens) if self.price else 0.0
        return Cost(0.0, tokens, self.max_tokens, usd, 1)


def get_call_price(base_llm: llm.LLM, settings: config.LLMSettings) -> CallPrice:
    """Returns what is known of a model's costs; of several, those of the dearest and the longest."""
    configured_price = _get_configured_price(settings)
    members = [member.llm for member in base_llm.members] if isinstance(base_llm, llm.EnsembleLLM) else [base_llm]
    call_prices = [_get_llm_price(member, configured_price) for member in members]
    if any(call_price.price is None for call_price in call_prices):
        price = None
    else:
        prices = [call_price.price for call_price in call_prices if call_price.price]
        price = llm.Price(
            max(member_price.input_mtok for member_price in prices),
            max(member_price.output_mtok for member_price in prices),
        )
    return CallPrice(
        price,
        max(call_price.max_tokens for call_price in call_prices),
        all(call_price.is_bounded for call_price in call_prices),
    )


def _get_llm_price(base_llm: llm.LLM, configured_price: llm.Price | None) -> CallPrice:
    max_tokens = base_llm.max_tokens if isinstance(base_llm, llm.HostedLLM) else None
    price = base_llm.price if isinstance(base_llm, llm.HostedLLM) and configured_price is None else configured_price
    return CallPrice(price, max_tokens or DEFAULT_MAX_TOKENS, max_tokens is not None)


def _get_configured_price(settings: config.LLMSettings) -> llm.Price | None:
    prices = (settings.price_in, settings.price_out)
    if None in prices and prices != (None, None):
        raise errors.SetupError("llm.price_in and llm.price_out belong together: give both, in USD per million tokens.")
    return None if prices[0] is None or prices[1] is None else llm.Price(prices[0], prices[1])


def check_dollar_budget(run_config: config.RunConfig, budget: control.Budget, call_price: CallPrice) -> None:
    """Refuses dollars that nobody can count.

    Raises:
        SetupError: The budget is in dollars, and the model's price is not known.
    """
    if budget.usd is not None and call_price.price is None and not run_config.run.llm.lower().startswith(("recorded:", "replay:")):
        raise errors.SetupError(
            f"The price of {run_config.run.llm} is not known, so its dollars cannot be counted: set llm.price_in and "
            "llm.price_out (USD per million tokens), or give a budget in tokens or calls."
        )


def make_llm_budget(
    run_config: config.RunConfig,
    budget: control.Budget,
    run_store: store.Store,
    run_id: str | None,
    on_empty: Callable[[str], None],
) -> llm.LLMBudget:
    """Returns the purse of a run, less what its earlier sessions have spent.

    Raises:
        SetupError: The budget of an island cannot be read, or counts what is no model's.
    """
    per_island = config.parse_budget(run_config.run.island_budget)
    if any(limit is not None for limit in (per_island.iterations, per_island.evaluations, per_island.seconds)):
        raise errors.SetupError("run.island_budget is for models: give dollars, tokens or calls, e.g. '$0.1,50calls'.")
    used, by_island = ZERO_COST, dict[int, Cost]()
    for record in run_store.journal(run_id).read_kinds("replied") if run_id else ():
        cost = Cost(*record.data.get("usage", ())) + Cost(calls=1)
        used += cost
        by_island[record.island] = by_island.get(record.island, ZERO_COST) + cost
    return llm.LLMBudget(budget, per_island, used, by_island, on_empty)


def make_metered_llm(
    base_llm: llm.LLM, call_price: CallPrice, llm_budget: llm.LLMBudget, settings: config.LLMSettings
) -> llm.LLM:
    """Returns the model behind its purse; a price that was set counts instead of the provider's."""
    configured_price, counting_llm = _get_configured_price(settings), llm.TokenCountingLLM(base_llm)
    return llm.MeteredLLM(
        llm.PricedLLM(counting_llm, configured_price) if configured_price else counting_llm,
        llm_budget,
        call_price.max_cost,
    )


def describe_cost(call_price: CallPrice, budget: control.Budget, initial_program: str) -> str:
    """Says what the calls of a run will cost, before the first."""
    if call_price.price is None:
        return "of unknown price: dollars are not counted, tokens are"
    estimate = call_price.max_cost(
        "x" * ((len(initial_program) * _PROGRAMS_SHOWN + _PROMPT_CHARS) // 4)
    )  # four characters make a token, about
    description = f"about ${estimate.usd:.4f} a call, if the reply has {call_price.max_tokens:,} tokens"
    if budget.usd is not None and estimate.usd > 0:
        return f"{description}; ${budget.usd:g} pays for about {int(budget.usd / estimate.usd):,} calls"
    calls = min((limit for limit in (budget.calls, budget.iterations) if limit is not None), default=None)
    return description if calls is None else f"{description}; {calls:,} calls cost about ${calls * estimate.usd:.2f}"
