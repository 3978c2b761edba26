"""What an agent believes about its world: what hurts, what blocks, what gives what; read, lived, and put in words.

A sentence of the playbook is the long form of a belief. `read` turns sentences into beliefs, `sentences` are the forms,
and nothing else connects the two: an empty playbook is an empty head.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from atoll import playbook

MILD = 0.15  # damage that is assumed of a look that nobody has tried
TRIES = 2  # without a gain after which an action is said to give nothing


@dataclass(slots=True)
class Fact:
    """What is known of a look: how often it was entered, hurt, was run into, and what it did."""

    entered: float = 0.0
    hurt: float = 0.0
    damage: float = 0.0
    blocked: float = 0.0
    cause: str = ""
    hunts: bool = False

    def mean_damage(self) -> float:
        return self.damage / self.hurt if self.hurt else MILD


@dataclass(slots=True)
class Use:
    """What is known of doing something to a look: tries, and what they gave."""

    tries: float = 0.0
    gains: Counter[str] = field(default_factory=Counter)


type Deed = tuple[str, str]  # an action and the look, or the circumstances, that it is done to

AVOID, HARMLESS, GIVES, NOTHING = (
    "Avoid {look}: it hurts ({cause}, {damage:.2f}).",
    "{look} is harmless: step on it freely.",
    "{action} at {look} gives {gain}.",
    "{action} at {look} gives nothing.",
)
BLOCKS, HUNTS, REFUGE = (
    "{look} blocks the way.",
    "{look} hunts: keep away from it.",
    "At night {look} keeps harm away: wait there.",
)
DARK, DAYLIGHT, RENEWS = (
    "The dark hurts whoever stays outside: seek a refuge before night.",
    "Daylight lasts {ticks} ticks.",
    "{look} turns into {other} again within {ticks} ticks.",
)

_FORMS: Sequence[tuple[str, re.Pattern[str]]] = [
    (
        "avoid",
        re.compile(r"Avoid (?P<look>.+): it hurts \((?P<cause>[^,]+), (?P<damage>[0-9]{1,4}(?:[.][0-9]{1,9})?)\)\."),
    ),
    ("harmless", re.compile(r"(?P<look>.+) is harmless: step on it freely\.")),
    ("nothing", re.compile(r"(?P<action>\S+) at (?P<look>.+) gives nothing\.")),
    ("gives", re.compile(r"(?P<action>\S+) at (?P<look>.+) gives (?P<gain>[^.]+)\.")),
    ("blocks", re.compile(r"(?P<look>.+) blocks the way\.")),
    ("hunts", re.compile(r"(?P<look>.+) hunts: keep away from it\.")),
    ("refuge", re.compile(r"At night (?P<look>.+) keeps harm away: wait there\.")),
    ("dark", re.compile(r"The dark hurts whoever stays outside: seek a refuge before night\.")),
    ("daylight", re.compile(r"Daylight lasts (?P<ticks>[1-9][0-9]{0,8}) ticks\.")),
    ("renews", re.compile(r"(?P<look>.+) turns into (?P<other>.+) again within (?P<ticks>[1-9][0-9]{0,8}) ticks\.")),
]


@dataclass(slots=True)
class Lore:
    """Beliefs, from the playbook and from this life.

    Attributes:
        facts: By look.
        uses: By deed.
        refuges: Looks where the night does no harm, with how often that was seen.
        dark_hurt, dark_ticks: Ticks of darkness outside a refuge that hurt, and all of them.
        daylight: Ticks of light in a day, once somebody has seen a whole one.
        renewals: What a look turns into by itself, and within how many ticks.
        told: Ids of the bullets by the look or deed that they are about.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    uses: dict[Deed, Use] = field(default_factory=dict)
    refuges: Counter[str] = field(default_factory=Counter)
    dark_hurt: float = 0.0
    dark_ticks: float = 0.0
    daylight: int | None = None
    renewals: dict[str, tuple[str, int]] = field(default_factory=dict)
    told: dict[str, set[str]] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    def fact(self, look: str) -> Fact:
        if look not in self.facts:
            self.facts[look] = Fact()
        return self.facts[look]

    def use(self, action: str, look: str) -> Use:
        if (action, look) not in self.uses:
            self.uses[action, look] = Use()
        return self.uses[action, look]

    def read(self, bullets: Iterable[playbook.Bullet]) -> None:
        """Believes what bullets say, the more the more often they helped; a bullet is read once in a life."""
        for bullet in bullets:
            if bullet.id not in self._read:
                self._read.add(bullet.id)
                self._believe(bullet)

    def _believe(self, bullet: playbook.Bullet) -> None:
        for name, form in _FORMS:
            found = form.fullmatch(bullet.content)
            if found is None:
                continue
            said = found.groupdict()
            self.told.setdefault(said.get("look") or name, set()).add(bullet.id)
            sure, doubt = 1.0 + min(bullet.helpful, 20), float(min(bullet.harmful, 20))
            match name:
                case "avoid":
                    fact = self.fact(said["look"])
                    fact.entered, fact.hurt = fact.entered + sure + doubt, fact.hurt + sure
                    fact.damage, fact.cause = fact.damage + sure * float(said["damage"]), said["cause"]
                case "harmless":
                    fact = self.fact(said["look"])
                    fact.entered, fact.hurt = fact.entered + sure + doubt, fact.hurt + doubt
                case "gives":
                    use = self.use(said["action"], said["look"])
                    use.tries, use.gains[said["gain"]] = use.tries + sure + doubt, use.gains[said["gain"]] + int(sure)
                case "nothing":
                    self.use(said["action"], said["look"]).tries += TRIES * sure
                case "blocks":
                    self.fact(said["look"]).blocked += sure
                case "hunts":
                    self.fact(said["look"]).hunts = True
                case "refuge":
                    self.refuges[said["look"]] += int(sure)
                case "dark":
                    self.dark_hurt, self.dark_ticks = self.dark_hurt + 5 * sure, self.dark_ticks + 5 * (sure + doubt)
                case "daylight":
                    self.daylight = int(said["ticks"])
                case "renews":
                    self.renewals[said["look"]] = (said["other"], int(said["ticks"]))
            return

    def risk(self, look: str, prior: float) -> float:
        """Returns the chance that entering a look hurts; `prior` for one that nobody has tried."""
        fact = self.facts.get(look)
        if fact is None:
            return prior
        return (fact.hurt + prior) / (fact.entered + 1.0)

    def is_wall(self, look: str) -> bool:
        fact = self.facts.get(look)
        return fact is not None and fact.blocked > fact.entered

    def sources(self, gain: str) -> list[tuple[str, str, float]]:
        """Returns what gives something: (action, look, how often of the tries)."""
        found = []
        for (action, look), use in self.uses.items():
            if use.gains[gain] and use.tries:
                found.append((action, look, min(1.0, use.gains[gain] / use.tries)))
        return found

    def is_dark_bad(self) -> bool:
        return self.dark_hurt >= 2 and self.dark_hurt > 0.5 * self.dark_ticks

    def feared(self, prior: float, threshold: float = 0.5) -> list[str]:
        """Returns the looks that are held to hurt: the entries of the dictionary of fear."""
        return [look for look, fact in self.facts.items() if fact.hurt and self.risk(look, prior) >= threshold]
