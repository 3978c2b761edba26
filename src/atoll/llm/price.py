"""What the tokens of a model cost, as far as anybody has written it down."""

from dataclasses import dataclass
from typing import Any

_SAMPLE = 1000  # tokens: some prices rise with the length of a prompt, and ours are short


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, in and out."""

    input_mtok: float
    output_mtok: float

    def usd(self, tokens_in: int, tokens_out: int) -> float:
        """Returns what a call with so many tokens costs."""
        return (tokens_in * self.input_mtok + tokens_out * self.output_mtok) / 1e6


def find(service: str, model: str, base_url: str) -> Price | None:
    """Returns the list price of a model; a gateway is known by its address, else the service counts."""
    import genai_prices  # with the prices of a thousand models

    def cost(tokens_in: int, tokens_out: int, **where: Any) -> float | None:
        usage = genai_prices.Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return float(genai_prices.calc_price(usage, model, **where).total_price) * 1e6 / _SAMPLE
        except LookupError:
            return None

    for where in ({"provider_api_url": base_url}, {"provider_id": service}, {"provider_id": "openai"}):
        amounts = cost(_SAMPLE, 0, **where), cost(0, _SAMPLE, **where)
        if amounts[0] is not None and amounts[1] is not None:
            return Price(amounts[0], amounts[1])
    return None
