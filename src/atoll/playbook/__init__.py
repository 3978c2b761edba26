"""ACE: an agent's context as a playbook that changes by deltas, each of them judged, versioned and revocable."""

from atoll.playbook.bullet import Bullet
from atoll.playbook.config import Config
from atoll.playbook.curator import Curated, Curator
from atoll.playbook.delta import Delta, Verdict, add, merge, remove, tag, update
from atoll.playbook.experience import Experience, Reflector, Tagging
from atoll.playbook.index import Index
from atoll.playbook.playbook import Held, Playbook, Stats, estimate_tokens
from atoll.playbook.refinement import Retired
from atoll.playbook.relation import Relation, relate
from atoll.playbook.store import Change, Event, Excerpt, Store

# fmt: off
__all__ = [
    "Bullet", "Change", "Config", "Curated", "Curator", "Delta", "Event", "Excerpt", "Experience", "Held", "Index",
    "Playbook", "Reflector", "Relation", "Retired", "Stats", "Store", "Tagging", "Verdict", "add", "estimate_tokens",
    "merge", "relate", "remove", "tag", "update",
]
# fmt: on
