"""Playbooks for agents (ACE). A playbook changes only by deltas; every change is checked, versioned and reversible."""

from atoll.playbook.bullet import Bullet, format_bullet
from atoll.playbook.curator import CurationResult, Curator
from atoll.playbook.delta import Delta, Tag, Verdict, add, merge, remove, tag, update
from atoll.playbook.files import export_folder, import_folder, load_folder
from atoll.playbook.kernel_adapter import make_island, make_reflector, make_store
from atoll.playbook.learners import Answer, Generator, Grade, LLMAnswerer, OnlineLearner, Turn
from atoll.playbook.meaning import Comparer, LLMComparer, Meaning, Relation, embed_with, relate_words
from atoll.playbook.offline import OfflineLearner, OfflineResult, Round
from atoll.playbook.playbook import Config, HeldEntry, Playbook, Stats, estimate_tokens
from atoll.playbook.refinement import RetiredBullet
from atoll.playbook.reflectors import Experience, LLMReflection, LLMReflector, Reflector, TaggingReflector
from atoll.playbook.retrieval import BulletIndex, Excerpt
from atoll.playbook.store import KEY, HeldDelta, HistoryEntry, PlaybookChange, PlaybookStore
from atoll.playbook.wrapping import PlaybookAgent, wrap, wrap_pydantic_ai

# fmt: off
__all__ = [
    "KEY",
    "Answer",
    "Bullet",
    "BulletIndex",
    "Comparer",
    "Config",
    "CurationResult",
    "Curator",
    "Delta",
    "Excerpt",
    "Experience",
    "Generator",
    "Grade",
    "HeldDelta",
    "HeldEntry",
    "HistoryEntry",
    "LLMAnswerer",
    "LLMComparer",
    "LLMReflection",
    "LLMReflector",
    "Meaning",
    "OfflineLearner",
    "OfflineResult",
    "OnlineLearner",
    "Playbook",
    "PlaybookAgent",
    "PlaybookChange",
    "PlaybookStore",
    "Reflector",
    "Relation",
    "RetiredBullet",
    "Round",
    "Stats",
    "Tag",
    "TaggingReflector",
    "Turn",
    "Verdict",
    "add",
    "embed_with",
    "estimate_tokens",
    "export_folder",
    "format_bullet",
    "import_folder",
    "load_folder",
    "make_island",
    "make_reflector",
    "make_store",
    "merge",
    "relate_words",
    "remove",
    "tag",
    "update",
    "wrap",
    "wrap_pydantic_ai",
]
# fmt: on
