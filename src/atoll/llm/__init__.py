"""LLMs behind one interface."""

from atoll.llm.base import (
    LLM,
    BudgetExhausted,
    ChatPrompt,
    JournaledLLM,
    LLMError,
    Response,
    continue_prompt,
    get_messages,
)
from atoll.llm.budget import LLMBudget, MeteredLLM, Price, PricedLLM, TokenCountingLLM
from atoll.llm.command_line import CommandLineLLM, use_agent_folder
from atoll.llm.ensemble import CallTracker, EnsembleLLM, EnsembleMember, RoutedProposer, WaitingCall
from atoll.llm.function_llm import FunctionLLM
from atoll.llm.hosted import HostedLLM, OpenAICompatibleLLM
from atoll.llm.json_output import InvalidResponse, ask_json
from atoll.llm.local_server import LocalLLM
from atoll.llm.mailbox import MailboxLLM
from atoll.llm.recording import RecordedLLM, RecordingLLM
from atoll.llm.registry import make_llm

# fmt: off
__all__ = [
    "LLM", "BudgetExhausted", "CallTracker", "ChatPrompt", "CommandLineLLM", "EnsembleLLM", "EnsembleMember",
    "FunctionLLM", "HostedLLM", "InvalidResponse", "JournaledLLM", "LLMBudget", "LLMError", "LocalLLM", "MailboxLLM",
    "MeteredLLM", "OpenAICompatibleLLM", "Price", "PricedLLM", "RecordedLLM", "RecordingLLM", "Response",
    "RoutedProposer", "TokenCountingLLM", "WaitingCall", "ask_json", "continue_prompt", "get_messages", "make_llm",
    "use_agent_folder",
]
# fmt: on
