"""Support agent with a prompt and two thresholds, and the customers that it serves. All invented, without an LLM.

The agent refunds small amounts, hands unclear tickets to an employee, and answers the others with its prompt. It reads
its parameters over HTTP for each customer and reports its decisions. A service of the shop reports their results,
since an agent should not measure itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll.governed.client import AgentClient, AssignedValue

PROMPT, REFUND, HANDOFF = "agent/prompt", "agent/refund_limit", "agent/handoff"
KEYS = (PROMPT, REFUND, HANDOFF)
INITIAL_VALUES: Mapping[str, Any] = {
    PROMPT: "You answer customers of a shop. Be kind and short.",
    REFUND: 20,  # refunds up to this amount are paid at once
    HANDOFF: 0.9,  # tickets that are less clear go to an employee
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """Question of a customer."""

    customer: str
    topic: str
    amount: int
    clarity: float


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a ticket: whether the customer is content, and the cost for the shop."""

    solved: float
    cost: float


def make_ticket(number: int) -> Ticket:
    rng = Random(number)
    topic = rng.choice(["delivery", "delivery", "broken"])
    return Ticket(f"customer-{number}", topic, rng.randint(30, 300), rng.random())


def choose_action(values: Mapping[str, Any], ticket: Ticket) -> str:
    """Returns the agent's action with these values of its parameters."""
    if ticket.amount <= values[REFUND]:
        return "refund"
    if ticket.clarity < values[HANDOFF]:
        return "handoff"
    return "ask for the order number" if "order number" in values[PROMPT] else "apologize"


def serve(client: AgentClient, ticket: Ticket) -> tuple[str, str]:
    """Serves a customer over HTTP; returns the action and the id of the decision."""
    values: Mapping[str, AssignedValue] = client.get_values(KEYS, ticket.customer)
    action = choose_action({key: item.value for key, item in values.items()}, ticket)
    transcript = f"Customer: {ticket.topic}, {ticket.amount} EUR. Agent: {action}."
    return action, client.report_decision(ticket.customer, values, transcript, action=action)


def observe(ticket: Ticket, action: str) -> Result:
    """Returns what came of an action. It is known after the customer's reply, so only in production."""
    rng = Random(f"{ticket.customer} {action}")
    chances = {"refund": 1.0, "handoff": 0.5, "ask for the order number": 0.97, "apologize": 0.3}
    costs = {"refund": float(ticket.amount), "handoff": 12.0}
    return Result(float(rng.random() < chances[action]), costs.get(action, 1.0) + rng.random())
