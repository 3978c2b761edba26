"""ACE: an agent's context as a playbook that changes by deltas, each of them judged, versioned and revocable."""

from atoll.playbook.build import make_island, make_reflector, make_store
from atoll.playbook.bullet import Bullet
from atoll.playbook.config import Config
from atoll.playbook.curator import Curated, Curator
from atoll.playbook.delta import Delta, Tag, Verdict, add, merge, remove, tag, update
from atoll.playbook.experience import Experience, Reflector, Tagging
from atoll.playbook.files import adopt, export, load
from atoll.playbook.index import Index
from atoll.playbook.insight import Asking
from atoll.playbook.meta import MetaNotes
from atoll.playbook.online import Answer, Answering, Generator, Mark, Online, Turn
from atoll.playbook.playbook import Held, Playbook, Stats, estimate_tokens
from atoll.playbook.refinement import Retired
from atoll.playbook.relation import Relation, relate
from atoll.playbook.store import KEY, Change, Event, Excerpt, Store
from atoll.playbook.waiting import Waiting

# fmt: off
__all__ = [
    "KEY", "Answer", "Answering", "Asking", "Bullet", "Change", "Config", "Curated", "Curator", "Delta", "Event",
    "Excerpt", "Experience", "Generator", "Held", "Index", "Mark", "MetaNotes", "Online", "Playbook", "Reflector",
    "Relation", "Retired", "Stats", "Store", "Tag", "Tagging", "Turn", "Verdict", "Waiting", "add", "adopt",
    "estimate_tokens", "export", "load", "make_island", "make_reflector", "make_store", "merge", "relate", "remove",
    "tag", "update",
]
# fmt: on
