"""Recorded transitions found by what their actions say: SQLite's full-text search, then re-ranked.

Full-text search finds a hundred candidates by BM25. They are ranked anew by

nearness   shared weight / all weight of the two actions' words, signs and pairs of neighbours, each
           weighing log(1 + N / documents that have it), a weighted Jaccard index: 1 is the same
kinship    the share of the weight of this trajectory's words (task, actions, observations) that the
           candidate's own trajectory has too: what is near in words may be of another database
score      nearness + 0.4 · kinship, the 0.4 measured (docs/worlds.md)

What is found always comes from the same place: one dataset and environment, or one workspace.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock

from lwm_agents.digests import leaves
from lwm_agents.values import Action, Source, Trajectory, Transition

KINSHIP = 0.4
"""What kinship weighs beside nearness."""

REAL: frozenset[Source] = frozenset({"executed", "rehearsed"})
"""The sources of observations that may serve as examples: what was only predicted never does."""

_CANDIDATES = 100
_ASKED = 60  # different words of an action that are searched for
_ACTION, _OBSERVATION = 4_000, 2_000  # characters whose words count
# Semicolons and back-quotes are left out: the same statement comes with and without them.
_WORDS = re.compile(r"\w+|[^\w\s;`]")

PlaceOf = Callable[[Trajectory], Hashable | None]


@dataclass(frozen=True)
class Near:
    """A transition that is like the action asked for; see the formulas at the top of this module.

    `own` says that it is of the very trajectory that asks. `seen` is how often its action gave
    just this observation.
    """

    transition: Transition
    nearness: float
    kinship: float
    own: bool = False
    seen: int = 1

    @property
    def score(self) -> float:
        """What it is ranked by."""
        return self.nearness + KINSHIP * self.kinship


def recorded_place(trajectory: Trajectory) -> Hashable | None:
    """Return the dataset and environment a trajectory was recorded in; None where it lacks one."""
    if trajectory.dataset is None or trajectory.environment is None:
        return None
    return trajectory.dataset, trajectory.environment


class Recordings:
    """Recorded trajectories to look up what like actions gave. Any thread may ask.

    `place_of` says where a trajectory happened; only what happened in the same place is found, and
    where it gives None nothing is. The trajectories are read when something is first asked for.
    """

    def __init__(
        self, trajectories: Iterable[Trajectory], place_of: PlaceOf = recorded_place
    ) -> None:
        self._place_of = place_of
        self._unread: Iterable[Trajectory] = trajectories
        self._shelves: dict[Hashable, _Shelf] = {}
        self._lock = Lock()

    def near(self, action: Action, trajectory: Trajectory, limit: int = 8) -> tuple[Near, ...]:
        """Return recorded transitions of the same tool and place, the best first.

        Never one of a recording that has the trajectory's own id.
        """
        shelf = self._shelf(trajectory)
        if shelf is None:
            return ()
        found = shelf.near(action, trajectory)
        return tuple(sorted(found, key=_by_score)[:limit])

    def examples(self, action: Action, trajectory: Trajectory) -> list[Transition]:
        """Return the transitions that `near` finds: what `LanguageWorld(examples=...)` takes."""
        return [near.transition for near in self.near(action, trajectory)]

    def own(self, action: Action, trajectory: Trajectory, limit: int = 8) -> tuple[Near, ...]:
        """Return transitions of the trajectory itself and the same tool, the best first.

        Of equals the latest is the best.
        """
        shelf = self._shelf(trajectory) or _Shelf()
        asked = shelf.weighed(action_terms(action))
        past = [t for t in trajectory.transitions if t.action.tool == action.tool]
        found = [
            Near(one, shelf.nearness(asked, action_terms(one.action)), 1.0, own=True)
            for one in reversed(past)
            if one.observation.source in REAL
        ]
        return tuple(sorted(found, key=_by_score)[:limit])

    def of_tool(self, tool: str, trajectory: Trajectory) -> Sequence[Transition]:
        """Return the different recorded transitions of one tool in the trajectory's place."""
        shelf = self._shelf(trajectory)
        return [] if shelf is None else shelf.of_tool(tool)

    def _shelf(self, trajectory: Trajectory) -> _Shelf | None:
        with self._lock:
            unread, self._unread = self._unread, ()
            for one in unread:
                where = self._place_of(one)
                if where is not None:
                    self._shelves.setdefault(where, _Shelf()).add(one)
        place = self._place_of(trajectory)
        return None if place is None else self._shelves.get(place)


def words_of(text: str) -> list[str]:
    """Return a text's words and signs in order, folded to lower case."""
    return _WORDS.findall(text.lower())


def action_words(action: Action) -> list[str]:
    """Return an action's tool and the words and signs of its arguments, in order."""
    text = " ".join(leaves(action.arguments))
    return [action.tool.lower(), *words_of(text[:_ACTION])]


def action_terms(action: Action) -> frozenset[str]:
    """Return an action's words and signs, and each pair of neighbours."""
    words = action_words(action)
    return frozenset(words) | {f"{one} {two}" for one, two in pairwise(words)}


@dataclass
class _Entry:
    """One action with one observation, however often recorded, and the words around it."""

    transition: Transition
    terms: frozenset[str]
    around: set[str]
    sessions: list[str] = field(default_factory=list)


class _Shelf:
    """What was recorded in one place."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._by_content: dict[tuple[str, str], int] = {}
        self._terms: Counter[str] = Counter()
        self._around: Counter[str] = Counter()
        self._trajectories = 0
        self._lock = Lock()
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute("CREATE VIRTUAL TABLE actions USING fts5 (words, content='')")

    def add(self, trajectory: Trajectory) -> None:
        """Take in what really happened in a trajectory."""
        around = _around(trajectory)
        self._around.update(around)
        self._trajectories += 1
        for transition in trajectory.transitions:
            if transition.observation.source not in REAL:
                continue
            content = (transition.action.digest, transition.observation.text)
            number = self._by_content.get(content)
            if number is None:
                number = self._by_content[content] = len(self._entries)
                terms = action_terms(transition.action)
                self._terms.update(terms)
                self._entries.append(_Entry(transition, terms, set()))
                words = " ".join(map(_indexed, action_words(transition.action)))
                self._index.execute(
                    "INSERT INTO actions (rowid, words) VALUES (?, ?)", (number, words)
                )
            self._entries[number].around |= around
            self._entries[number].sessions.append(trajectory.session)

    def near(self, action: Action, trajectory: Trajectory) -> Iterator[Near]:
        """Yield the candidates for an action, in no order."""
        asked = self.weighed(action_terms(action))
        around = {word: self._weight_around(word) for word in _around(trajectory)}
        whole = sum(around.values())
        for number in self._candidates(action):
            entry = self._entries[number]
            others = sum(session != trajectory.session for session in entry.sessions)
            if not others or entry.transition.action.tool != action.tool:
                continue
            shared = sum(around[word] for word in entry.around if word in around)
            yield Near(
                entry.transition,
                self.nearness(asked, entry.terms),
                shared / whole if whole else 0.0,
                seen=others,
            )

    def of_tool(self, tool: str) -> list[Transition]:
        return [e.transition for e in self._entries if e.transition.action.tool == tool]

    def weighed(self, terms: Iterable[str]) -> dict[str, float]:
        """Return each term with its weight."""
        return {term: self._weight(term) for term in terms}

    def nearness(self, asked: dict[str, float], terms: frozenset[str]) -> float:
        """Return the weighted Jaccard index of two actions' terms, 0..1."""
        shared = sum(asked[term] for term in terms if term in asked)
        whole = sum(asked.values()) + sum(self._weight(t) for t in terms if t not in asked)
        return shared / whole if whole else 0.0

    def _weight(self, term: str) -> float:
        return math.log(1 + (len(self._entries) + 1) / (self._terms[term] or 1))

    def _weight_around(self, word: str) -> float:
        return math.log(1 + self._trajectories / (self._around[word] or 1))

    def _candidates(self, action: Action) -> list[int]:
        # The rarest words find the most; a long argument would make a query of thousands.
        words = sorted(set(action_words(action)), key=lambda word: (-self._weight(word), word))
        query = " OR ".join(map(_indexed, words[:_ASKED]))
        with self._lock:
            rows = self._index.execute(
                "SELECT rowid FROM actions WHERE actions MATCH ? ORDER BY rank LIMIT ?",
                (query, _CANDIDATES),
            )
            return [row[0] for row in rows]


def _by_score(near: Near) -> float:
    return -near.score


def _around(trajectory: Trajectory) -> set[str]:
    """Return the words of a trajectory: of its task, its actions, and what they gave."""
    words = set(words_of(trajectory.task[:_OBSERVATION]))
    for transition in trajectory.transitions:
        words.update(action_words(transition.action))
        words.update(words_of(transition.observation.text[:_OBSERVATION]))
    return words


def _indexed(word: str) -> str:
    """Return a word or sign as the index takes it: as letters, so that signs are words too."""
    return "w" + word.encode("utf-8", "replace").hex()
