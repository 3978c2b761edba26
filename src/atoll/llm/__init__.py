"""Language models behind one protocol."""

from atoll.llm.callable import FromFunction
from atoll.llm.llm import LLM, Durable, NoReply, Reply
from atoll.llm.names import make_llm
from atoll.llm.provider import OpenAICompatible
from atoll.llm.recording import Recorder, Replay

__all__ = ["LLM", "Durable", "FromFunction", "NoReply", "OpenAICompatible", "Recorder", "Replay", "Reply", "make_llm"]
