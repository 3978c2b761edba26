"""Language models behind one protocol."""

from atoll.llm.agents import CommandLineLLM
from atoll.llm.callable import FunctionLLM
from atoll.llm.ensemble import EnsembleLLM, EnsembleMember, RoutedProposer
from atoll.llm.llm import LLM, JournaledLLM, JSONPrompt, LLMError, Response
from atoll.llm.local import LocalLLM
from atoll.llm.mailbox import MailboxLLM
from atoll.llm.names import make_llm
from atoll.llm.price import Price
from atoll.llm.provider import HostedLLM, OpenAICompatibleLLM
from atoll.llm.purse import TokenCountingLLM, MeteredLLM, PricedLLM, LLMBudget
from atoll.llm.recording import RecordingLLM, RecordedLLM
from atoll.llm.structured import InvalidResponse, ask_json

# fmt: off
__all__ = [
    "LLM", "CommandLineLLM", "TokenCountingLLM", "JournaledLLM", "EnsembleLLM", "FunctionLLM", "HostedLLM", "JSONPrompt", "LocalLLM", "MailboxLLM",
    "EnsembleMember", "MeteredLLM", "LLMError", "OpenAICompatibleLLM", "Price", "PricedLLM", "LLMBudget", "RecordingLLM", "RecordedLLM", "Response",
    "RoutedProposer", "InvalidResponse", "ask_json", "make_llm",
]
# fmt: on
