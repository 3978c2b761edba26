"""Self-improving agent in production: reflection, proposal, shadow run, approval, canary, and an automatic rollback.

Run it: python -m examples.governed_agent.pipeline. docs/tutorials/self_improving_agent.md explains each step. The
agent, the approver and the service talk to the server over HTTP, each with its own token. A scripted LLM replaces a
real one.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from atoll import governed, llm, store
from atoll.candidate import Candidate
from atoll.dashboard import server
from atoll.governed import principals
from atoll.governed.agent import transcripts
from atoll.governed.client import AgentClient
from atoll.governed.evidence import attribution, feedback_stores, log_stores, replayer
from atoll.governed.rollout import evaluators, shadow_result, shadow_runner, status
from atoll.store import access
from examples.governed_agent import support_agent
from examples.governed_agent.support_agent import HANDOFF, INITIAL_VALUES, KEYS, PROMPT, REFUND

POLICY = [
    {
        "prefix": "agent/",
        "needs": ["proposal", "shadow", "canary"],
        "max_chars": 2000,
        "plan": {"guardrails": ["solved", "cost:8:lower"], "shares": [0.25, 0.5], "min_samples": 12,
                 "min_seconds": 3600, "bake_seconds": 3600},
    },
    {"prefix": REFUND, "schema": {"type": "number", "minimum": 0, "maximum": 500}},
]  # fmt: skip
ROLES: Mapping[str, Any] = {"ann": "admin", "bob": "approver", "helper": "agent", "cron": "service"}
TICKETS_PER_HOUR = 50
MAX_HOURS = 10
GOOD_CHANGES = {PROMPT: "You answer customers of a shop. Be kind and short. Ask for the order number.", HANDOFF: 0.1}


class Outcome(NamedTuple):
    """Stages of both rollouts, and the values at the end."""

    good_stages: list[str]
    bad_stages: list[str]
    bad_reason: str
    values: dict[str, Any]


class Shop:
    """Server of a store with principals and a policy, and a clock that the simulation advances."""

    def __init__(self, run_store: store.Store) -> None:
        self.time, self.run_store = datetime(2026, 1, 1, tzinfo=UTC), run_store
        self.parameters = governed.StoredParameters(run_store)
        for key, value in INITIAL_VALUES.items():
            self.parameters.set(key, value, "initial value", author="ann")
        self.tokens = {"ann": principals.add_principal(self.parameters, "ann", "admin", "first", author="ann")}
        with access.use_token(self.tokens["ann"]):
            for name in ("bob", "helper", "cron"):
                self.tokens[name] = principals.add_principal(self.parameters, name, ROLES[name], "starts", author="ann")
            principals.set_policy(self.parameters, POLICY, "changes of the agent pass all stages", author="ann")
        self.server = server.DashboardServer(run_store, host="127.0.0.1", port=0, clock=lambda: self.time)
        self.url = self.server.address.partition("/?")[0]
        self.clients = {name: AgentClient(self.url, token) for name, token in self.tokens.items()}
        self.num_tickets = 0

    def serve_hour(self, num_tickets: int = TICKETS_PER_HOUR) -> None:
        """Lets the agent serve customers for an hour. The service reports the results."""
        self.time += timedelta(minutes=30)
        for _ in range(num_tickets):
            ticket = support_agent.make_ticket(self.num_tickets)
            self.num_tickets += 1
            action, decision = support_agent.serve(self.clients["helper"], ticket)
            result = support_agent.observe(ticket, action)
            metrics = {"solved": result.solved, "cost": result.cost}
            self.clients["cron"].report_feedback(ticket.customer, metrics, decision_id=decision)
        self.time += timedelta(minutes=31)

    def run_shadow(self, changes: Mapping[str, Any]) -> shadow_result.ShadowResult:
        """Compares a bundle with the current values on earlier tickets, and saves the result for each of its keys.

        The estimate knows how customers like an action, but not what it costs: only production tells.
        """
        tickets = [Candidate(f"ticket-{number}", str(number)) for number in range(400)]
        current = {key: self.parameters.get(key).value for key in KEYS}

        def apply(sample: Candidate, value: Any) -> Candidate:
            values = {**current, **(value if isinstance(value, dict) else {})}
            return Candidate(sample.id, json.dumps([int(sample.content), values]))

        def score(sample: Candidate) -> float:
            number, values = json.loads(sample.content)
            ticket = support_agent.make_ticket(number)
            return support_agent.observe(ticket, support_agent.choose_action(values, ticket)).solved

        runner = shadow_runner.ShadowRunner(
            self.parameters, evaluators.FuncEvaluator(score), shadow_result.FixedSampler(tickets), apply
        )
        result = runner.run_shadow(next(iter(changes)), dict(changes))
        with access.use_token(self.tokens["cron"]):
            for key, value in changes.items():
                status.save_shadow_result(self.parameters, key, value, result, "cron")
        return result

    def run_canary(self, key: str) -> tuple[list[str], str]:
        """Serves customers, and updates the rollout every hour until it ends. Returns its stages and last reason."""
        stages: list[str] = []
        for _ in range(MAX_HOURS):
            self.serve_hour()
            state = self.clients["cron"].update_rollout(key)
            stages.append(f"{state['stage']} {state['share']:.0%}")
            if state["stage"] in ("full", "rolled_back"):
                break
        return stages, state["why"]


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """Starts the server in a thread."""
    with store.Store(folder / "atoll.db") as run_store:
        shop = Shop(run_store)
        thread = Thread(target=shop.server.run, daemon=True)
        thread.start()
        try:
            yield shop
        finally:
            shop.server.stop()
            thread.join(10)


def answer_as_llm(prompt: str) -> llm.Response:
    """Answers like an LLM that has read the transcripts. Replace it by `llm.make_llm("openai:gpt-5-mini")`."""
    worst = prompt.partition("Worst decisions:")[2].partition("Best decisions:")[0]
    ids = [line.partition("]")[0][1:] for line in worst.splitlines() if line.startswith("[")]
    bundle = {
        "title": "Ask for the order number, hand off less",
        "rationale": "Customers who ask about a delivery got an apology or had to wait for an employee.",
        "changes": GOOD_CHANGES,
        "evidence": ids[:3],
    }
    return llm.Response(json.dumps([bundle]), "scripted")


def reflect(shop: Shop) -> transcripts.Bundle:
    """Reads the log and the feedback of the store, and returns a bundle to propose."""
    reflector = transcripts.TranscriptReflector("solved")
    replay = replayer.LogReplayer(
        log_stores.SQLLog(shop.run_store),
        feedback_stores.SQLFeedback(shop.run_store),
        attribution=attribution.by_decision,
    )
    replay.register(reflector)
    replay.replay(shop.time - timedelta(days=7), shop.time)
    bundles, _ = transcripts.propose_with_llm(reflector, shop.parameters, KEYS, answer_as_llm)
    return bundles[0]


def propose_and_approve(shop: Shop, bundle: transcripts.Bundle) -> None:
    """Lets the agent propose, the service run a shadow, and the approver read and approve exactly what was read."""
    proposal = shop.clients["helper"].propose(
        bundle.title, bundle.changes, rationale=bundle.rationale, evidence=bundle.evidence
    )
    print(f"{proposal['id']}: {bundle.title}. Shadow run: {shop.run_shadow(bundle.changes).verdict}.")
    page = shop.clients["bob"].get_proposal(proposal["id"])
    for change in page["changes"]:
        marks = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
        print("  ", change["key"], "".join(marks[kind].format(text) for kind, text in change["segments"]))
    reason = "the evidence is convincing"
    shop.clients["bob"].decide(proposal["id"], page["content_hash"], approve=True, reason=reason, by="bob")


def main() -> Outcome:
    """Runs the whole loop in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, open_shop(Path(folder)) as shop:
        shop.serve_hour(20)
        propose_and_approve(shop, reflect(shop))
        good_stages, reason = shop.run_canary(PROMPT)
        print("Rollout:", ", ".join(good_stages), "-", reason)
        bad = transcripts.Bundle("Refund everybody", {REFUND: 400}, "Refunds make all customers happy.", [])
        propose_and_approve(shop, bad)
        bad_stages, bad_reason = shop.run_canary(REFUND)
        print("Rollout:", ", ".join(bad_stages), "-", bad_reason)
        values = {key: shop.parameters.get(key).value for key in KEYS}
        shop.parameters.verify()
        return Outcome(good_stages, bad_stages, bad_reason, values)


if __name__ == "__main__":
    main()
