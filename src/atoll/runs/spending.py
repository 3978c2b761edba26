"""What a run may spend on its model: reserved before each call, counted after it, told before the first."""

from collections.abc import Callable
from dataclasses import dataclass

from atoll import config, control, errors, llm, store
from atoll.evaluation import FREE, Cost

# Of a reply whose longest is not known. What it takes beyond that may exceed a budget, by one call for each worker.
ASSUMED_TOKENS = 4096
_FRAME_TOKENS = 64  # that a service adds to a prompt
_PROMPT_CHARS = 3000  # that a prompt has besides the programs that it shows, about
_SHOWN = 3  # programs in a prompt, about


@dataclass(frozen=True, slots=True)
class Tariff:
    """What one call to a model can cost.

    Attributes:
        price: What its tokens cost; None: that is not known.
        max_tokens: The longest reply.
        is_bounded: Whether that is the model's own limit, and not assumed.
    """

    price: llm.Price | None
    max_tokens: int
    is_bounded: bool

    def most(self, prompt: str) -> Cost:
        """Returns the most that a call can cost: no token is shorter than a byte."""
        tokens = len(prompt.encode("utf-8", "replace")) + _FRAME_TOKENS
        usd = self.price.usd(tokens, self.max_tokens) if self.price else 0.0
        return Cost(0.0, tokens, self.max_tokens, usd, 1)


def tariff_of(model: llm.LLM, settings: config.LLMSettings) -> Tariff:
    """Returns what is known of a model's costs; of several, those of the dearest and the longest."""
    own = _set_price(settings)
    members = [member.llm for member in model.members] if isinstance(model, llm.Ensemble) else [model]
    tariffs = [_tariff(each, own) for each in members]
    if any(each.price is None for each in tariffs):
        price = None
    else:
        prices = [each.price for each in tariffs if each.price]
        price = llm.Price(max(each.input_mtok for each in prices), max(each.output_mtok for each in prices))
    return Tariff(price, max(each.max_tokens for each in tariffs), all(each.is_bounded for each in tariffs))


def _tariff(model: llm.LLM, own: llm.Price | None) -> Tariff:
    longest = model.max_tokens if isinstance(model, llm.Hosted) else None
    known = model.price if isinstance(model, llm.Hosted) and own is None else own
    return Tariff(known, longest or ASSUMED_TOKENS, longest is not None)


def _set_price(settings: config.LLMSettings) -> llm.Price | None:
    given = (settings.price_in, settings.price_out)
    if None in given and given != (None, None):
        raise errors.SetupError("llm.price_in and llm.price_out belong together: give both, in USD per million tokens.")
    return None if given[0] is None or given[1] is None else llm.Price(given[0], given[1])


def check(plan: config.Plan, budget: control.Budget, tariff: Tariff) -> None:
    """Refuses dollars that nobody can count.

    Raises:
        SetupError: The budget is in dollars, and the model's price is not known.
    """
    if budget.usd is not None and tariff.price is None and not plan.run.llm.lower().startswith("replay:"):
        raise errors.SetupError(
            f"The price of {plan.run.llm} is not known, so its dollars cannot be counted: set llm.price_in and "
            "llm.price_out (USD per million tokens), or give a budget in tokens or calls."
        )


def purse_of(
    plan: config.Plan, budget: control.Budget, kept: store.Store, run: str | None, on_empty: Callable[[str], None]
) -> llm.Purse:
    """Returns the purse of a run, less what its earlier sessions have spent.

    Raises:
        SetupError: The budget of an island cannot be read, or counts what is no model's.
    """
    per_island = config.parse_budget(plan.run.island_budget)
    if any(limit is not None for limit in (per_island.iterations, per_island.evaluations, per_island.seconds)):
        raise errors.SetupError("run.island_budget is for models: give dollars, tokens or calls, e.g. '$0.1,50calls'.")
    spent, by_island = FREE, dict[int, Cost]()
    for record in kept.journal(run).of_kind("replied") if run else ():
        cost = Cost(*record.data.get("usage", ())) + Cost(calls=1)
        spent += cost
        by_island[record.island] = by_island.get(record.island, FREE) + cost
    return llm.Purse(budget, per_island, spent, by_island, on_empty)


def metered(model: llm.LLM, tariff: Tariff, purse: llm.Purse, settings: config.LLMSettings) -> llm.LLM:
    """Returns the model behind its purse; a price that was set counts instead of the provider's."""
    own, counted = _set_price(settings), llm.Counted(model)
    return llm.Metered(llm.Priced(counted, own) if own else counted, purse, tariff.most)


def told(tariff: Tariff, budget: control.Budget, start: str) -> str:
    """Says what the calls of a run will cost, before the first."""
    if tariff.price is None:
        return "of unknown price: dollars are not counted, tokens are"
    guess = tariff.most("x" * ((len(start) * _SHOWN + _PROMPT_CHARS) // 4))  # four characters make a token, about
    said = f"about ${guess.usd:.4f} a call, if the reply has {tariff.max_tokens:,} tokens"
    if budget.usd is not None and guess.usd > 0:
        return f"{said}; ${budget.usd:g} pays for about {int(budget.usd / guess.usd):,} calls"
    calls = min((limit for limit in (budget.calls, budget.iterations) if limit is not None), default=None)
    return said if calls is None else f"{said}; {calls:,} calls cost about ${calls * guess.usd:.2f}"
