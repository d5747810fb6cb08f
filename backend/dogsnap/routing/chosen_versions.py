"""Holds what is chosen for every model, follows the store, and writes switches to it."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from datetime import UTC, datetime

from dogsnap.errors import Aborted, DogsnapError, FailedPrecondition, NotFound, Unavailable
from dogsnap.routing.choices import CONFIGURATION_KIND, GUARDED_KINDS, Change, Choices, Rollout
from dogsnap.routing.sqlite_store import SqliteStore
from dogsnap.routing.state_folder import other_files
from dogsnap.routing.store import NumberTaken, Store
from dogsnap.routing.switch_log import CONFIGURATION, WATCHER, Switch, Who, iso

log = logging.getLogger("dogsnap.switches")

FOLLOW_SECONDS = 0.2
MOST_SWITCHES = 1000  # newest ones that are shown and can be undone
MOST_OTHERS = 3  # newest other files that a server with a new one names
ANSWERING = "answering"  # kind of the notes: the version that answers while none is chosen
NOTHING = Choices()
# Why a server is not ready; the trouble itself names files and hosts, and is for administrators.
NOT_KNOWN = "what is chosen is not known: the store of switches does not answer; see the log"


class ChosenVersions:
    """Thread-safe.

    `choices` waits for nothing; what a request reads at once is of one
    revision.
    """

    def __init__(
        self, store: Store | None = None, on_change: Callable[[str], None] = lambda model: None
    ):
        """Without a store, all is in memory. `on_change` is called with each model
        whose choices were replaced.
        """
        self.store = store or SqliteStore()
        self._on_change = on_change
        self.is_known = False  # what is chosen was read once
        self.trouble = ""  # why the store does not answer
        self._choices: dict[str, Choices] = {}
        self._configured: dict[str, Choices] = {}  # by configurations alone
        self._answering: dict[str, int] = {}
        self._switches: deque[Switch] = deque(maxlen=MOST_SWITCHES)
        self._newest: dict[tuple[str, str], tuple[Switch, Change]] = {}
        self._undone: dict[int, int] = {}
        self._last: tuple[int, str] = (0, "")  # number and text of the newest switch
        self._lock = threading.Lock()  # while the store is read and written
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    # -- reading -------------------------------------------------------------------------------------

    def choices(self, model: str) -> Choices:
        return self._choices.get(model, NOTHING)

    @property
    def revision(self) -> int:
        """The id of the newest switch; 0 before the first one."""
        return self._last[0]

    def rollouts(self) -> Iterator[tuple[str, str, Rollout]]:
        """Every rollout with its model and label ("" for the default)."""
        for model, choices in sorted(self._choices.items()):
            for label, rollout in choices.rollouts.items():
                yield model, label, rollout

    def splits(self) -> list[tuple[str, str, int, float]]:
        """Every split: model, label ("" for the default), version, share in (0, 1]."""
        splits = []
        for model, choices in sorted(self._choices.items()):
            for label, split in choices.splits.items():
                splits.append((model, label, split.version, split.share))
        return splits

    def configured_labels(self, model: str) -> dict[str, int]:
        """The labels as a configuration has last set them, without later switches."""
        return self._configured.get(model, NOTHING).labels

    def answering(self, model: str) -> int | None:
        """The version that answers by default though none was chosen."""
        return self._answering.get(model)

    def switches(self, model: str = "") -> list[Switch]:
        """The newest switches, newest first; of one model if it is named."""
        newest = reversed(self._switches.copy())
        return [switch for switch in newest if model in ("", *switch.models)]

    def newest_switch(self, models: Set[str]) -> Switch | None:
        """The last one that has changed what is chosen for any of these models."""
        for switch in reversed(self._switches.copy()):
            is_of_models = any(change.model in models for change in switch.changes)
            if switch.by != WATCHER and is_of_models:
                return switch
        return None

    def newest_changes(self) -> dict[tuple[str, str], tuple[Switch, Change]]:
        """By model and label ("" for the default): the last change of which versions
        get its requests, with its switch, however many others came since.
        """
        return self._newest.copy()

    def undone_by(self, number: int) -> int | None:
        """The id of the switch that undid this one."""
        return self._undone.get(number)

    # -- the store -----------------------------------------------------------------------------------

    def start(self, on_follow: Callable[[], None]) -> None:
        """Follow the store in a thread; `on_follow` is called after each look at it."""
        self._thread = threading.Thread(
            target=self._follow, args=(on_follow,), name="switches", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.store.close()

    def _follow(self, on_follow: Callable[[], None]) -> None:
        while not self._closed.wait(FOLLOW_SECONDS):
            self.follow()
            try:
                on_follow()
            except Exception:
                log.exception("looking after guarded switches failed")

    def follow(self) -> None:
        """Read what others have switched; trouble is logged when it begins and
        when it ends.
        """
        with self._lock:
            try:
                self._read()
                trouble = ""
            except DogsnapError as error:
                trouble = error.message
        if trouble and not self.trouble:
            state = "the last choices go on answering" if self.is_known else "not ready"
            log.error("switches are refused, %s: %s", state, trouble)
        elif self.trouble and not trouble:
            log.info("switches are possible again")
        self.trouble = trouble

    def _read(self) -> None:
        """Raises Unavailable if the store is away, has lost switches, or has
        others than ours.
        """
        number, text = self._last
        rows = self.store.read(max(0, number - 1))
        if number:
            if not rows or rows[0] != (number, text):
                raise Unavailable(
                    f"the store has lost switch {number} or has another one in its place; a "
                    "restart accepts what it has now"
                )
            rows = rows[1:]
        expected = range(number + 1, number + 1 + len(rows))
        numbers = [row[0] for row in rows]
        if numbers != list(expected):
            raise Unavailable(
                f"the store is incomplete: expected switches {number + 1} to "
                f"{number + len(rows)}, found {', '.join(map(str, numbers[:3]))}, ...; restore it"
            )
        switches = [Switch.from_text(*row) for row in rows]
        answering = {}
        for model, version in self.store.notes(ANSWERING).items():
            if not version.isdecimal():
                raise Unavailable(f"the store says that {model} is answered by {version[:20]!r}")
            answering[model] = int(version)
        changed = {model for model in answering if answering[model] != self.answering(model)}
        self._answering = answering
        if rows:
            self._last = rows[-1]
        if not self.is_known:
            self._say_what_is_kept(len(rows))
        self.is_known = True
        self._apply(switches, changed)

    def _say_what_is_kept(self, count: int) -> None:
        if not self.store.is_kept:
            return
        place = self.store.place
        log.info(
            "what is chosen is kept in %s, which has %d switch%s",
            place,
            count,
            "" if count == 1 else "es",
        )
        if not count and (others := other_files(place)):
            log.warning(
                "%s is new; other files here have switches: %s; if one of them was this server's, "
                "name it by --switch-log",
                place,
                ", ".join(others[:MOST_OTHERS]),
            )

    def _apply(self, switches: Sequence[Switch], changed: set[str]) -> None:
        """Replace the choices of each model at once, and tell the repository."""
        choices = dict(self._choices)
        for switch in switches:
            self._switches.append(switch)
            for change in reversed(switch.changes):  # the main one is the first
                if change.kind in GUARDED_KINDS:
                    self._newest[change.model, change.name] = (switch, change)
            if switch.undoes is not None:
                self._undone[switch.undoes] = switch.id
            if switch.by == WATCHER:
                continue
            is_configured = switch.by == CONFIGURATION
            is_configured |= switch.changes[0].kind == CONFIGURATION_KIND
            for change in switch.changes:
                if is_configured and change.kind == "label":
                    configured = self._configured.get(change.model, NOTHING)
                    self._configured[change.model] = configured.with_changes([change])
                if change.kind != CONFIGURATION_KIND:
                    before = choices.get(change.model, NOTHING)
                    choices[change.model] = before.with_changes([change])
                    changed.add(change.model)
        self._choices = choices
        for model in changed:
            self._on_change(model)

    # -- writing -------------------------------------------------------------------------------------

    def switch(
        self,
        make: Callable[[], Sequence[Change]],
        by: Who,
        undoes: int | None = None,
        forced: tuple[str, ...] = (),
        is_guarded: bool = False,
        reason: str = "",
    ) -> Switch | None:
        """Write the changes that `make` finds for what is chosen now; None if
        it finds none. What else is given is as in `Switch`.

        `make` may be called again. Raises what `make` raises, Unavailable if the store is away, and Aborted
        if another server has switched the same model at this moment.
        """
        with self._lock:
            self._read()
            known = self.revision
            while True:
                changes = make()
                if not changes:
                    return None
                number, at = self.revision + 1, iso(datetime.now(UTC))
                switch = Switch(number, at, by, tuple(changes), undoes, forced, is_guarded, reason)
                text = switch.to_text()
                try:
                    self.store.append(switch.id, text)
                    break
                except NumberTaken:
                    self._read()
                    # Configurations of two servers do not compete.
                    first = self.newest_switch({change.model for change in changes} - {""})
                    if first and first.id > known:
                        raise was_second(first) from None
            self._last = (switch.id, text)
            self._apply([switch], set())
        log.info("switch %d by %s %s: %s", switch.id, by.name, by.address, switch)
        return switch

    def note_answering(self, model: str, version: int) -> None:
        """Keep which version answers by default though none is chosen.

        Raises Unavailable.
        """
        with self._lock:
            self.store.note(ANSWERING, model, str(version))
            self._answering = {**self._answering, model: version}

    def note_default(self, model: str, before: int | None, after: int | None) -> None:
        """Log that the default moved by itself. Of several servers the first one does.

        A chosen one that answers for the first time was logged when it was
        chosen; one that is back undoes that it had left.
        """
        change = Change(model, "default", "", before, after)
        left = self._leaving(model, after)

        def make() -> list[Change]:
            newest = next(iter(self.switches(model)), None)
            is_known = newest and newest.by == WATCHER and newest.changes == (change,)
            is_chosen = after is not None and after == self.choices(model).default
            return [] if is_known or (is_chosen and not left) else [change]

        self.switch(make, WATCHER, undoes=left)

    def _leaving(self, model: str, version: int | None) -> int | None:
        """The id of the switch by which this version, the chosen default, has left
        by itself, if that was the last one of the default.
        """
        for switch in self.switches(model):
            for change in switch.changes:
                if (change.model, change.kind) == (model, "default"):
                    has_left = switch.by == WATCHER and change.before == version is not None
                    return switch.id if has_left else None
        return None

    def find(self, number: int | None, model: str, is_undoable: Callable[[Switch], bool]) -> Switch:
        """The switch with this id, or the last one that is undoable.

        Raises if there is none.
        """
        if number is None:
            for switch in self.switches(model):
                if is_undoable(switch):
                    return switch
            of = f" for {model}" if model else ""
            raise FailedPrecondition(f"there is no switch to undo{of}")
        for switch in self.switches():
            if switch.id == number:
                return switch
        raise NotFound(f"there is no switch {number} in the log")


def was_second(first: Switch | None) -> Aborted:
    """The error for a switch that was planned before another one was made; None: it is not known which."""
    what = "what is chosen has changed meanwhile"
    if first:
        what = f"{first.by.name} {first.by.address} was first: switch {first.id} ({first})"
    return Aborted(f"{what}; look at it and try again")
