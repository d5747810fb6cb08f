"""The counterpart of the repository in a gateway: asks the engines for models, versions and labels."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from backend.errors import DeadlineExceeded, DogsnapError, EngineFailed, Full, InvalidArgument, NotFound, Unimplemented
from backend.gateway.client import ASK_SECONDS, EngineAway, EngineClient
from backend.gateway.servable import RUNTIME, EngineServable
from backend.serving.inference.executor import InlineExecutor, remaining
from backend.serving.repository.model import ModelSpec, State, VersionStatus
from backend.serving.repository.switch_log import SwitchLog
from backend.serving.repository.watcher import Watcher
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions.description import DESCRIPTION_FILE
from backend.serving.versions.version_folders import version_folders

log = logging.getLogger("dogsnap.engine")

SIGNATURE_DEF = "signature_def"
STATES = get_model_status_pb2.ModelVersionStatus.State
LOOK_SECONDS = 1.0  # between two looks, where the settings say to look only once: an engine may come and go
ELSEWHERE = (
    "the models run in an engine behind this server, which switches versions itself: ask the engine, not its gateway"
)
Answer = TypeVar("Answer")
# (model, label or None for the default)
Meaning = tuple[str, str | None]


class EngineSwitches(SwitchLog):
    """The engine has the log of its switches; here nothing is switched, and nothing can be undone."""

    def switches(self, model: str = "") -> NoReturn:
        raise Unimplemented(ELSEWHERE)


class EngineRepository:
    """Has the methods of `serving.repository.Repository` that doors and predictor use. Thread-safe."""

    def __init__(self, engine: EngineClient, base_paths: Callable[[], Mapping[str, Path]], executor: InlineExecutor):
        """`base_paths`: the models to serve, asked at every look, and where the descriptions of their versions lie.

        `executor` has the places of the requests that wait for the engine.
        """
        self.switches: SwitchLog = EngineSwitches()
        self._engine = engine
        self._executor = executor
        self._base_paths = base_paths
        self._lock = threading.Lock()
        self._models: dict[str, Path] = {}
        self._states: dict[str, list[VersionStatus]] = {}
        self._known: dict[ServableId, tuple[tuple[Any, ...], EngineServable]] = {}
        self._meant: dict[Meaning, int] = {}
        self._defaults: dict[str, int] = {}
        self._trouble = "the engine was not asked yet"
        self._started = False
        self._watcher = Watcher(self._look_safely, self.not_ready)

    # -- requests ------------------------------------------------------------------------------------------------------

    @contextmanager
    def acquire(self, spec: ModelSpec) -> Iterator[EngineServable]:
        """The servable that is to answer `spec`, as far as is known. Raises what the engine answers."""
        yield (self._expected(spec) or self._in_a_place(lambda: self.learn(spec))).asked(spec, self)

    def _in_a_place(self, question: Callable[[], Answer]) -> Answer:
        """A request's question takes a place, as its run does: a door has more threads than places, so that some stay free."""
        return self._executor.run(question, time.monotonic() + remaining(ASK_SECONDS))

    def _expected(self, spec: ModelSpec) -> EngineServable | None:
        with self._lock:
            version = self._meant.get((spec.name, spec.label)) if spec.version is None else spec.version
            known = None if version is None else self._known.get(ServableId(spec.name, version))
            return known[1] if known else None

    def learn(self, spec: ModelSpec) -> EngineServable:
        """Ask the engine which version `spec` means now, and what that takes and gives."""
        try:
            servable = self._servable(self._engine.metadata(spec), spec)
        except (NotFound, InvalidArgument):
            self._meant.pop((spec.name, spec.label), None)
            raise
        if spec.version is None:
            self._meant[spec.name, spec.label] = servable.id.version
        return servable

    def answered(self, asked: ModelSpec, servable: ServableId) -> EngineServable:
        """Put down which version has answered, and give what is known of it."""
        self._meant[asked.name, asked.label] = servable.version
        exactly = ModelSpec(servable.name, servable.version)
        return self._expected(exactly) or self.learn(exactly)

    def _servable(self, response: get_model_metadata_pb2.GetModelMetadataResponse, asked: ModelSpec) -> EngineServable:
        """Made anew only if the engine says something new, or the description beside the model does."""
        version = response.model_spec.version.value if response.model_spec.HasField("version") else asked.version
        if version is None:
            raise EngineFailed(f"the engine does not say which version of {asked.name} it means")
        identity, packed = ServableId(asked.name, version), response.metadata[SIGNATURE_DEF]
        folder = self._folder(identity)
        source = (packed.value, folder, _written(folder))
        with self._lock:
            known = self._known.get(identity)
        if known is None or known[0] != source:
            signatures = get_model_metadata_pb2.SignatureDefMap()
            if not packed.Unpack(signatures):
                raise EngineFailed(f"the engine does not say what {identity} takes: it has no signature_def")
            known = source, EngineServable(identity, dict(signatures.signature_def), folder, self._engine)
            with self._lock:
                self._known[identity] = known
        return known[1]

    def _folder(self, identity: ServableId) -> Path | None:
        base_path = self._models.get(identity.name)
        return version_folders(base_path).get(identity.version) if base_path else None

    # -- status --------------------------------------------------------------------------------------------------------

    def models(self) -> list[str]:
        """The names of the configured models: an engine cannot be asked for its own."""
        return sorted(self._models)

    def only_model(self) -> str:
        """The model there is; "" if there is none, or more than one."""
        names = list(self._models)
        return names[0] if len(names) == 1 else ""

    def available(self, name: str) -> list[int]:
        """The numbers of a model's versions that answer, largest first, as the engine said at the last look."""
        states = self._states.get(name) or self.status(ModelSpec(name))
        return sorted((each.version for each in states if each.state == State.AVAILABLE), reverse=True)

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        """The states of a model's versions, largest first; of one version if `spec` names it. Raises what the engine answers.

        With all places taken it is what the last look has seen: who watches a server does so at full load, too.
        """
        try:
            return self._in_a_place(lambda: self._status(spec))
        except Full:
            seen = [each for each in self._states.get(spec.name, ()) if spec.version in (None, each.version)]
            if spec.label is not None or not seen:
                raise
            return seen

    def _status(self, spec: ModelSpec) -> list[VersionStatus]:
        try:
            found = self._engine.status(spec).model_version_status
        except Unimplemented:  # an engine without ModelService
            servable = self.learn(spec)
            return [VersionStatus(servable.id.version, State.AVAILABLE, "", 0.0, RUNTIME, _classes(servable))]
        known = [_version_status(each, self._expected(ModelSpec(spec.name, each.version))) for each in found]
        return sorted(known, key=lambda each: -each.version)

    def labels(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """None: an engine does not tell its labels, though it takes them."""
        return {}, {}

    def default_version(self, name: str) -> int | None:
        """The version that answers when a request names none, as the engine said at the last look."""
        return self._defaults.get(name)

    def splits(self) -> list[tuple[str, str, int, float]]:
        return []

    def is_split(self, spec: ModelSpec) -> bool:
        """Whether it may be by chance which version answers `spec`: only the engine knows."""
        return spec.version is None

    def shadow_of(self, answered: ServableId) -> None:
        """None: shadows are the engine's."""

    def has_started(self) -> bool:
        return self._started

    def not_ready(self) -> str:
        """Why the server is not ready, or "" once an engine answers for every configured model."""
        return self._trouble

    # -- administration ------------------------------------------------------------------------------------------------

    def list_versions(self, name: str) -> NoReturn:
        raise Unimplemented(ELSEWHERE)

    def switching(self, name: str) -> NoReturn:
        raise Unimplemented(ELSEWHERE)

    def sent_configuration(self) -> None:
        """None: nobody configures models here."""

    def follow(self, *_: Any) -> NoReturn:
        raise Unimplemented(ELSEWHERE)

    # -- watching ------------------------------------------------------------------------------------------------------

    def start(self, poll_seconds: float, on_ready: Callable[[], None] = lambda: None) -> None:
        """Look in a thread of its own, every `poll_seconds`."""
        self._watcher.start(poll_seconds or LOOK_SECONDS, on_ready)

    def _look_safely(self) -> None:
        """What is wrong is told when it begins, not at every look."""
        try:
            troubles = self.look()
        except Exception as error:
            log.debug("looking at the engine failed", exc_info=error)
            troubles = {f"looking at the engine failed: {error!r}": ""}
        trouble = "; ".join(troubles)
        if not self._watcher.closed and (not self._started or bool(trouble) != bool(self._trouble)):
            details = "; ".join(filter(None, troubles.values()))
            log.info(
                "%s", f"{trouble} ({details})" if trouble else f"the engine answers for {', '.join(self.models())}"
            )
        self._trouble, self._started = trouble, True

    def look(self) -> dict[str, str]:
        """Ask for every model's versions, and which one answers by default.

        Gives why the server is not ready, each reason with what is for the log alone.
        """
        self._models = dict(self._base_paths()) or self._models
        troubles = dict(filter(None, map(self._look_at, self.models())))
        for name, label in list(self._meant):
            if label is not None or name not in self._models:
                self._ask_again(name, label)
        return troubles

    def _look_at(self, name: str) -> tuple[str, str] | None:
        try:
            self._states[name] = self._status_of_any(name)
            self._forget_but(name, self.available(name))
            if not self.available(name):
                return f"no version available of: {name}", ""
            self._defaults[name] = self.learn(ModelSpec(name)).id.version
        except EngineAway as error:
            self._forget_but(name, [])  # whoever comes back may serve something else under the same numbers
            return error.message, error.details
        except DogsnapError as error:
            self._states.pop(name, None)
            return f"the engine says of {name}: {error.message}", ""
        return None

    def _status_of_any(self, name: str) -> list[VersionStatus]:
        """One engine that hangs is no reason not to be ready: the next call goes to another."""
        try:
            return self._status(ModelSpec(name))
        except DeadlineExceeded:
            return self._status(ModelSpec(name))

    def _forget_but(self, name: str, there: Sequence[int]) -> None:
        """Keep what is known of these versions of a model alone."""
        with self._lock:
            self._known = {each: it for each, it in self._known.items() if each.name != name or each.version in there}

    def _ask_again(self, name: str, label: str | None) -> None:
        try:
            self.learn(ModelSpec(name, label=label))
        except DogsnapError as error:
            log.debug("label %s of %s: %s", label, name, error)

    def close(self) -> None:
        self._watcher.stop()
        self._engine.close()
        self._watcher.join()


def base_paths(configs: Callable[[], Sequence[Any]], otherwise: Path) -> dict[str, Path]:
    """Name -> folder of the configured models: `otherwise` where there is none, and {} while that cannot be told."""
    try:
        return {config.name: Path(config.base_path) for config in configs()} or {otherwise.name: otherwise}
    except InvalidArgument as error:  # the folder is away; the engine is not
        log.debug("the models folder cannot be read: %s", error)
        return {}


def _written(folder: Path | None) -> int | None:
    """When the description in a version folder was written; None if there is none."""
    try:
        return (folder / DESCRIPTION_FILE).stat().st_mtime_ns if folder else None
    except OSError:
        return None


def _classes(servable: EngineServable | None) -> int | None:
    """None for a version that nobody has asked for yet: what it names is learned then."""
    return len(servable.description.labels) if servable else None


def _version_status(status: get_model_status_pb2.ModelVersionStatus, servable: EngineServable | None) -> VersionStatus:
    name = STATES.Name(status.state) if status.state in STATES.values() else ""
    state = State(name) if name in State.__members__ else State.START
    runtime = RUNTIME if state == State.AVAILABLE else None
    return VersionStatus(status.version, state, status.status.error_message, 0.0, runtime, _classes(servable))
