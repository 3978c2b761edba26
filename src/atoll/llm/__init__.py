"""Language models behind one protocol."""

from atoll.llm.agents import CommandLine
from atoll.llm.callable import FromFunction
from atoll.llm.ensemble import Ensemble, Member, Routed
from atoll.llm.llm import LLM, Durable, JSONPrompt, NoReply, Reply
from atoll.llm.local import Local
from atoll.llm.mailbox import Mailbox
from atoll.llm.names import make_llm
from atoll.llm.price import Price
from atoll.llm.provider import Hosted, OpenAICompatible
from atoll.llm.purse import Counted, Metered, Priced, Purse
from atoll.llm.recording import Recorder, Replay
from atoll.llm.structured import Unreadable, ask_json

# fmt: off
__all__ = [
    "LLM", "CommandLine", "Counted", "Durable", "Ensemble", "FromFunction", "Hosted", "JSONPrompt", "Local", "Mailbox",
    "Member", "Metered", "NoReply", "OpenAICompatible", "Price", "Priced", "Purse", "Recorder", "Replay", "Reply",
    "Routed", "Unreadable", "ask_json", "make_llm",
]
# fmt: on
