"""The counterpart of the repository in a gateway: asks the engines for models,
versions and labels.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from dogsnap.errors import (
    DogsnapError,
    EngineFailed,
    Full,
    InvalidArgument,
    NotFound,
    Unavailable,
    Unimplemented,
)
from dogsnap.files import without_folders
from dogsnap.gateway.client import EngineClient, EngineUnreachable
from dogsnap.gateway.engine_servable import RUNTIME, EngineServable
from dogsnap.gateway.engines import ASK_SECONDS
from dogsnap.routing.chosen_versions import NOT_KNOWN, ChosenVersions
from dogsnap.routing.planners import Versions
from dogsnap.routing.resolver import answering_version, resolve
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.execution.executor import InlineExecutor, remaining
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.repository.model import State, VersionStatus
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.model_files import ModelFiles
from dogsnap.serving.versions.version_folders import version_folders

log = logging.getLogger("dogsnap.engine")

STATUS = get_model_status_pb2.ModelVersionStatus
# If the settings say to scan only at the start: an engine may stop and start again.
POLL_SECONDS = 1.0
MOST_SERVABLES = 256
Answer = TypeVar("Answer")


class EngineRepository(ModelRepository):
    """Asks the engines, and remembers what they have said."""

    def __init__(
        self,
        engine: EngineClient,
        configs: Callable[[], Sequence[ModelConfig]],
        files: ModelFiles,
        only: Path,
        executor: InlineExecutor,
        chosen: ChosenVersions,
        is_named: Callable[[str], bool] = lambda _: True,
    ):
        """`configs` gives the models, asked at each poll; without any there is
        `only`. `executor` limits questions, too. `is_named` says of a model
        whether the configuration names it, and not only a folder.
        """
        super().__init__(chosen)
        self.engine = engine
        self._executor = executor
        self._configs, self._only, self._is_named = configs, only, is_named
        self._files = files
        self._were_ready: set[str] = set()  # models of which a version was available once
        self._known_lacks: list[str] = []  # as of the last poll
        self._folders: dict[str, Path] = {}  # of the models
        self._statuses: dict[str, list[VersionStatus]] = {}  # as of the last poll
        # By model and label, None for the default.
        self._meant: dict[tuple[str, str | None], int] = {}
        self._known: dict[ServableId, EngineServable] = {}
        self._create = lru_cache(MOST_SERVABLES)(self._create_servable)
        self._trouble = "the engine was not asked yet"

    @contextmanager
    def acquire(self, spec: ModelSpec) -> Iterator[EngineServable]:
        """Raises also what the engine answers, and Unavailable where the version that
        was chosen is at no engine.
        """
        asked, spec = spec, self._choose(spec)
        try:
            servable = self._find_known(spec)
            if servable is None:
                servable = self._ask_engine(lambda: self.resolve(spec))
            yield servable.for_request(spec)
        except NotFound as error:
            if asked.version is None and spec.version is not None:
                raise Unavailable(f"{describe_gone(spec)}; try again later") from error
            raise

    def _choose(self, spec: ModelSpec) -> ModelSpec:
        """`spec` by the number that was chosen here; the engine decides what
        was not chosen.
        """
        if not self.chosen.is_known:
            raise Unavailable(NOT_KNOWN)
        choices = self.chosen.choices(spec.name)
        is_ours = spec.label is None or spec.label in choices.labels

        def is_asked_for(number: int) -> bool:
            """What was chosen always is; the version of a split while an engine may have it."""
            if number == choices.of(spec.label or ""):
                return True
            exactly = ModelSpec(spec.name, number)
            return any(engine.may_have(exactly) for engine in self.engine.engines.all())

        number = resolve(choices, spec, is_asked_for) if is_ours else None
        if number is None:
            return self.engine.choose(spec)
        return ModelSpec(spec.name, number, sticky_key=spec.sticky_key)

    def _ask_engine(self, question: Callable[[], Answer]) -> Answer:
        """Make a metadata or status call for a request; it takes a place in the
        executor, so that some threads stay free.
        """
        return self._executor.run(question, time.monotonic() + remaining(ASK_SECONDS))

    def resolve(self, spec: ModelSpec) -> EngineServable:
        """Ask the engine which version `spec` means now, and for its signatures."""
        try:
            servable = self._servable(self.engine.metadata(spec), spec)
        except (NotFound, InvalidArgument):
            self._meant.pop((spec.name, spec.label), None)
            raise
        before = self._known.get(servable.id)
        if before and before.description != servable.description:
            self.engine.metrics.forget(servable.id)  # what was counted is of another version
        if before is not servable:
            self.engine.metrics.expect(servable.id)
        self._known[servable.id] = servable
        if spec.version is None:
            self._meant[spec.name, spec.label] = servable.id.version
        return servable

    def record_answer(self, asked: ModelSpec, servable: ServableId) -> EngineServable:
        """Record which version has answered, and return it."""
        self._meant[asked.name, asked.label] = servable.version
        exactly = ModelSpec(*servable)
        return self._find_known(exactly) or self.resolve(exactly)

    def _find_known(self, spec: ModelSpec) -> EngineServable | None:
        """The servable that `spec` means as far as is known here; None if it is not."""
        version = spec.version
        if version is None:
            version = self._meant.get((spec.name, spec.label))
        return None if version is None else self._known.get(ServableId(spec.name, version))

    def _servable(
        self, response: get_model_metadata_pb2.GetModelMetadataResponse, asked: ModelSpec
    ) -> EngineServable:
        """The servable for a metadata response; a new one only if the
        signatures or the local description have changed.
        """
        version = asked.version
        if response.model_spec.HasField("version"):
            version = response.model_spec.version.value
        if version is None:
            raise EngineFailed(f"the engine does not say which version of {asked.name} it means")
        identity = ServableId(asked.name, version)
        packed = response.metadata["signature_def"]
        if not packed.Is(get_model_metadata_pb2.SignatureDefMap.DESCRIPTOR):
            raise EngineFailed(
                f"the engine does not say what {identity} takes: it has no signature_def"
            )
        return self._create(identity, packed.value, *self._find_folder(identity))

    def _create_servable(
        self, identity: ServableId, signatures: bytes, folder: Path | None, modified: int | None
    ) -> EngineServable:
        """`modified`: when the description was, which is read again then."""
        definitions = get_model_metadata_pb2.SignatureDefMap.FromString(signatures).signature_def
        return EngineServable(identity, dict(definitions), folder, self)

    def _find_folder(self, identity: ServableId) -> tuple[Path | None, int | None]:
        """The version's local folder, and when its description was modified;
        None for what is not there or cannot be read.
        """
        folder, modified = None, None
        with suppress(OSError, KeyError):
            folder = version_folders(self._folders[identity.name])[identity.version]
            modified = (folder / DESCRIPTION_FILE).stat().st_mtime_ns
        return folder, modified

    def models(self) -> list[str]:
        """The names of the configured models; engines do not list theirs."""
        return sorted(self._folders)

    def available(self, name: str) -> list[int]:
        statuses = self._statuses.get(name) or self.status(ModelSpec(name))
        return _available(statuses)

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        """While the server is full, as of the last poll, for monitoring."""
        if spec.label is not None:
            number = self.chosen.choices(spec.name).labels.get(spec.label)
            spec = self.engine.choose(spec) if number is None else ModelSpec(spec.name, number)
        try:
            return self._ask_engine(lambda: self._status(spec))
        except Full:
            last_poll = []
            for status in self._statuses.get(spec.name, ()):
                if spec.version in (None, status.version):
                    last_poll.append(status)
            if spec.label is not None or not last_poll:
                raise
            return last_poll

    def _status(self, spec: ModelSpec) -> list[VersionStatus]:
        statuses: list[VersionStatus] = []
        messages: Sequence[get_model_status_pb2.ModelVersionStatus] = ()
        try:
            messages = self._ask_status(spec)
        except NotFound:
            # Others are listed beside a model that only this server's configuration has, as
            # on one server beside a folder without versions.
            if spec != ModelSpec(spec.name) or spec.name not in self._folders:
                raise
        for message in messages:
            known = self._known.get(ServableId(spec.name, message.version))
            note = self.engine.engines.describe_lack(ModelSpec(spec.name, message.version))
            statuses.append(_version_status(message, known, note))
        if spec.version is None and spec.label is None:
            told = {status.version for status in statuses}
            for number in self.chosen.choices(spec.name).answering - told:
                gone = describe_gone(ModelSpec(spec.name, number))
                statuses.append(VersionStatus(number, State.END, gone, 0.0, None, None))
        return sorted(statuses, key=lambda status: -status.version)

    def _ask_status(self, spec: ModelSpec) -> Sequence[get_model_status_pb2.ModelVersionStatus]:
        try:
            return self.engine.status(spec).model_version_status
        except Unimplemented:  # an engine without ModelService
            version = self.resolve(spec).id.version
            return [STATUS(version=version, state=STATUS.AVAILABLE)]

    def default_version(self, name: str) -> int | None:
        """The chosen one, or the engine's."""
        if name not in self._folders and (name, None) not in self._meant:
            served = ", ".join(self.models()) or "none"
            raise NotFound(f"there is no model {name}; models served here: {served}")
        chosen = answering_version(self.chosen.choices(name), "", lambda _: True)
        return self._meant.get((name, None)) if chosen is None else chosen

    def versions(self, name: str) -> Versions:
        """Those that every engine has now; each is asked."""
        default = self.default_version(name)
        engines = self.engine.versions_of_each(name)
        answers = [numbers for numbers in engines.values() if numbers is not None]
        common = frozenset.intersection(*answers) if answers else frozenset()
        return Versions(name, tuple(sorted(common, reverse=True)), default, engines=engines)

    def not_ready(self) -> str:
        return self._trouble

    def troubles(self) -> list[str]:
        silent = [each.address for each in self.engine.engines.all() if not each.answers]
        return [f"the engine at {address} does not answer" for address in silent] + self._lacks()

    def start(
        self,
        poll_seconds: float,
        on_ready: Callable[[], None] = lambda: None,
        on_follow: Callable[[], None] = lambda: None,
    ) -> None:
        self.engine.start()
        super().start(poll_seconds or POLL_SECONDS, on_ready, on_follow)

    def scan_safely(self) -> None:
        if not self.chosen.is_known:
            self.chosen.follow()
        if not self.chosen.is_known:  # what nobody chose must not answer
            self._trouble = NOT_KNOWN
            return
        try:
            troubles = self.poll()
        except Exception as error:
            log.debug("polling the engine failed", exc_info=error)
            troubles = {f"polling the engine failed: {error!r}": ""}
        trouble = "; ".join(troubles)
        if not self._closed and (not self.started or bool(trouble) != bool(self._trouble)):
            details = "; ".join(filter(None, troubles.values()))
            if trouble:
                log.info("%s (%s)", trouble, details)
            else:
                log.info("the engine answers for %s", ", ".join(self.models()))
        self._trouble = trouble
        self.started = True

    def poll(self) -> dict[str, str]:
        """Ask for each model's versions and default; returns why the server is
        not ready, with details for the log.
        """
        try:
            configs = self._configs()
            folders = {config.name: self._files.folder(config.base_path) for config in configs}
            self._folders = folders or {self._only.name: self._only}
            self.engine.watched = self.models()
            self.engine.configure(configs)
        except InvalidArgument as error:  # the engine works without the folder
            log.debug("the models folder cannot be read: %s", error)
        troubles: dict[str, tuple[str, str]] = {}
        for name in self.models():
            try:
                if trouble := self._poll_model(name):
                    troubles[name] = (trouble, "")
                else:
                    self._were_ready.add(name)
            except EngineUnreachable as error:
                # When it is back, it may serve other versions under the same numbers.
                self._keep_only(name, [])
                troubles[name] = (error.message, error.details)
            except DogsnapError as error:
                self._statuses.pop(name, None)
                troubles[name] = (f"the engine answers for {name}: {error.message}", "")
        # As on one server: a folder that never held a model makes nothing unready.
        missed = [name for name in troubles if name in self._were_ready or self._is_named(name)]
        if len(troubles) == len(self.models()):
            missed = list(troubles)
        self._log_lacks()
        for name, label in list(self._meant):
            if label is not None or name not in self._folders:
                with suppress(DogsnapError):  # one that was removed is not known any more then
                    self.resolve(ModelSpec(name, label=label))
        return dict(troubles[name] for name in missed)

    def lacking(self) -> list[tuple[str, ModelSpec]]:
        """The addresses of engines that answer, each with a chosen version that it lacks."""
        lacking = []
        for name in self.models():
            for number in self.chosen.choices(name).answering:
                spec = ModelSpec(name, number)
                for engine in self.engine.engines.all():
                    if engine.answers and engine.lacks(spec):
                        lacking.append((engine.address, spec))
        return lacking

    def _lacks(self) -> list[str]:
        """What `lacking` says, as sentences."""
        lacks = []
        for address, spec in self.lacking():
            what = f"version {spec.version} of {spec.name}, which is chosen"
            lacks.append(f"the engine at {address} lacks {what}")
        return lacks

    def _log_lacks(self) -> None:
        """Log what an engine lacks when that begins."""
        lacks = self._lacks()
        for sentence in lacks:
            if sentence not in self._known_lacks:
                log.warning(sentence)
        self._known_lacks = lacks

    def _poll_model(self, name: str) -> str:
        """Ask for its versions and default; returns why it does not answer, or ""."""
        spec = ModelSpec(name)
        statuses = self._status(spec)
        self._statuses[name], available = statuses, _available(statuses)
        self._keep_only(name, available)
        if not available:
            return f"no version available of: {name}"
        self.resolve(spec)
        default = self.chosen.choices(name).default
        is_gone = default is not None and default not in available
        return describe_gone(ModelSpec(name, default)) if is_gone else ""

    def _keep_only(self, name: str, available: Sequence[int]) -> None:
        """Of this model, keep only what is known of these versions."""
        for identity in list(self._known):
            if identity.name == name and identity.version not in available:
                self._known.pop(identity, None)

    def close(self) -> None:
        self._closed = True
        self.engine.close()  # ends the calls of a poll that runs
        super().close()


def describe_gone(spec: ModelSpec) -> str:
    return f"version {spec.version} of {spec.name}, which is chosen, is at no engine"


def _available(statuses: Sequence[VersionStatus]) -> list[int]:
    """The available versions, largest first as the statuses are."""
    return [status.version for status in statuses if status.state == State.AVAILABLE]


def _version_status(
    status: get_model_status_pb2.ModelVersionStatus, servable: EngineServable | None, note: str
) -> VersionStatus:
    name = STATUS.State.Name(status.state) if status.state in STATUS.State.values() else ""
    state = State.__members__.get(name, State.START)
    runtime = RUNTIME if state == State.AVAILABLE else None
    # Unknown for a version that has not been used yet.
    description = servable.description if servable else None
    error = without_folders(status.status.error_message)
    return VersionStatus(status.version, state, error, 0.0, runtime, description, note=note)
