"""What the tokens of a model cost, as far as anybody has written it down."""

from dataclasses import dataclass
from typing import Any

_SAMPLE_TOKENS = 1000  # tokens: some prices rise with the length of a prompt, and ours are short


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, in and out."""

    input_mtok: float
    output_mtok: float

    def compute_usd(self, tokens_in: int, tokens_out: int) -> float:
        """Returns what a call with so many tokens costs."""
        return (tokens_in * self.input_mtok + tokens_out * self.output_mtok) / 1e6


def find_price(service: str, model: str, base_url: str) -> Price | None:
    """Returns the list price of a model; a gateway is known by its address, else the service counts."""
    import genai_prices  # with the prices of a thousand models

    def compute_price(tokens_in: int, tokens_out: int, **provider: Any) -> float | None:
        usage = genai_prices.Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return float(genai_prices.calc_price(usage, model, **provider).total_price) * 1e6 / _SAMPLE_TOKENS
        except LookupError:
            return None

    for where in ({"provider_api_url": base_url}, {"provider_id": service}, {"provider_id": "openai"}):
        prices = compute_price(_SAMPLE_TOKENS, 0, **where), compute_price(0, _SAMPLE_TOKENS, **where)
        if prices[0] is not None and prices[1] is not None:
            return Price(prices[0], prices[1])
    return None
