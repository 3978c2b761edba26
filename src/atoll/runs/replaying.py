"""What the models of a run said, as a recording from which the run can be repeated without them."""

from collections.abc import Iterator

from atoll import llm, store
from atoll.evaluation import Cost
from atoll.llm import recording


def iter_responses(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the replies of a run as lines that `llm.Replay` reads, those of judges too, in the order of arrival.

    Raises:
        NotFound: There is no such run.
    """
    for record in run_store.journal(run_id).read_kinds("replied"):
        data = record.data
        if "prompt" in data and "text" in data:
            response = llm.Response(data["text"], str(data.get("model") or "unknown"), Cost(*data["usage"]))
            yield recording.format_line((record.step, str(data["call"])), data["prompt"], response)
