"""Watches the model folders, loads and unloads versions, and hands out the
version that a request asks for.
"""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from dogsnap.allocator import give_back_free
from dogsnap.errors import (
    Aborted,
    Cancelled,
    DeadlineExceeded,
    DogsnapError,
    FailedPrecondition,
    NotFound,
    Unavailable,
)
from dogsnap.model_urls import without_secrets
from dogsnap.routing.choices import CONFIGURATION_KIND, Change
from dogsnap.routing.chosen_versions import NOT_KNOWN, ChosenVersions
from dogsnap.routing.planners import Versions, check_in_force, keep_answering
from dogsnap.routing.resolver import version_of_label
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.store import Store
from dogsnap.routing.switch_log import CONFIGURATION, Switch, Who
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.repository.interface import CONFIGURED, IsAwaited, ModelRepository
from dogsnap.serving.repository.model import Model, State, Version, VersionStatus
from dogsnap.serving.versions import low_priority
from dogsnap.serving.versions.model_configs import (
    ModelConfig,
    check_configs,
    check_versions,
    describe_base_path,
    to_json,
)
from dogsnap.serving.versions.model_files import ModelFiles
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.version_folders import (
    check_memory,
    describe_unreadable,
    digest,
    find_fault,
    fingerprint,
    is_folder,
    version_folders,
)
from dogsnap.serving.versions.warmup import warm_up

log = logging.getLogger("dogsnap.repository")

# A folder unchanged for this long when the server starts is considered complete after one scan.
SETTLED_SECONDS = 2.0
# While a client waits for a new configuration: the interval of scans, and the longest
# wait if the client set no deadline.
RELOAD_POLL_SECONDS = 1.0
RELOAD_SECONDS = 600.0


class LocalRepository(ModelRepository):
    """Loads versions from folders into this process."""

    retry_seconds = 60.0  # until a version that failed to load is tried again

    def __init__(
        self,
        configs: Callable[[], Iterable[ModelConfig]],
        metrics: Metrics | None = None,
        store: Store | None = None,
        prepare: Callable[[LocalServable], None] = lambda _: None,
        is_named: Callable[[str], bool] = lambda _: True,
        files: ModelFiles | None = None,
    ):
        """`configs` is called at every scan, `prepare` with each version that
        was loaded, before it is warmed up.

        `is_named` says of a model whether the configuration names it, and not
        only a folder that it was found in. `store`: of the switches; without
        one they are in memory. `files` finds the folders of base paths.
        """
        super().__init__(ChosenVersions(store, self._adopt_change))
        self._configs = self._configs_at_start = configs
        self._metrics = metrics or Metrics()
        self._prepare = prepare
        self._is_named = is_named
        self._files = files or ModelFiles()
        self._models: dict[str, Model] = {}
        self._lock = threading.RLock()
        self._configuring = threading.RLock()  # taken before `_lock`; one configuration at a time
        self._scanning = threading.Lock()
        self._scanned = threading.Condition(self._lock)
        self._begun = self._done = 0  # scans
        self._replaced: weakref.WeakSet[LocalServable] = weakref.WeakSet()
        self._unready = ""
        self._troubles: list[str] = []

    @contextmanager
    def acquire(self, spec: ModelSpec) -> Iterator[LocalServable]:
        with self._lock:
            version = self._model(spec.name).resolve(spec, self.started)
            version.in_use += 1
        try:
            assert version.servable is not None  # while it is in use
            yield version.servable
        finally:
            with self._lock:
                version.in_use -= 1
                if version.in_use == 0 and version.state == State.UNLOADING:
                    self.scan_soon()

    def _model(self, name: str) -> Model:
        """Raises NotFound, or Unavailable while the models are not all known."""
        if name in self._models:
            return self._models[name]
        if not self.started:
            raise Unavailable(
                f"the server is still starting, {name} may be served in a moment; try again"
            )
        served = ", ".join(sorted(self._models)) or "none"
        raise NotFound(
            f"Servable not found for request: Latest({name}); models served here: {served}; "
            "name one of them in the request, or start the server with DOGSNAP_DEFAULT_MODEL for "
            "requests that name none"
        )

    def models(self) -> list[str]:
        with self._lock:
            return sorted(name for name, model in self._models.items() if not model.removed)

    def available(self, name: str) -> list[int]:
        with self._lock:
            return self._model(name).available()

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        with self._lock:
            model = self._models.get(spec.name)
            if model is None:
                raise NotFound(f"Could not find any versions of model {spec.name}")
            number = spec.version
            if spec.label is not None:
                number = version_of_label(model.choices, spec.name, spec.label, model.answers)
            if number not in (None, *model.versions):
                raise NotFound(f"Could not find version {number} of model {spec.name}")
            numbers = sorted(model.versions, reverse=True) if number is None else [number]
            return [model.status(each) for each in numbers]

    def default_version(self, name: str) -> int | None:
        with self._lock:
            return self._model(name).default()

    def versions(self, name: str) -> Versions:
        """The folders are read without the lock: a disk that hangs holds up no request."""
        with self._lock:
            source = self._model(name).config.base_path
        base_path = self._files.folder(source)
        folders: dict[int, Path] = {}
        unreadable = ""
        try:
            folders = version_folders(base_path)
        except OSError as error:  # what is loaded can be chosen, and a switch undone
            unreadable = describe_unreadable(base_path, error)
        faults = {number: find_fault(folder) for number, folder in folders.items()}
        with self._lock:
            known = self._model(name).known_versions(folders, faults)
        return replace(known, unreadable=unreadable)

    def _adopt_change(self, name: str) -> None:
        """Requests see all of a switch or nothing of it: the choices are
        replaced with the lock held.
        """
        with self._lock:
            if name in self._models:
                self._adopt_choices(self._models[name])
        self.scan_soon()

    def try_again(self, name: str, version: int | None = None) -> None:
        with self._lock:
            found = self._model(name).versions.get(version or 0)
            if found and found.is_exported_again:
                found.is_wanted_again, found.error = True, ""
        self._adopt_change(name)

    def _adopt_choices(self, model: Model) -> None:
        """What is chosen takes effect; versions to be unloaded take no new request."""
        default_before = model.default()
        model.adopt(self.chosen.choices(model.name))
        model.answering = self.chosen.answering(model.name) or model.answering
        if model.default() != default_before:  # it was chosen
            model.logged_default = model.default()
        unloaded = []
        for number in model.versions:
            if model.choices.keeps_out(number) and model.answers(number):
                unloaded.append(number)
            elif number in model.choices.loads:
                # one that failed is tried again, or counts as unloaded
                model.versions[number].error = ""
        self._retire(model, unloaded)

    def not_ready(self) -> str:
        with self._lock:
            if not self.chosen.is_known and self.chosen.trouble:
                return NOT_KNOWN
            if not self.started:
                return "the models are still loading"
            if not self._models:
                return (
                    "no model was found: expected a folder of model folders, each with "
                    "a numeric folder per version"
                )
            names = self.models()
            silent = [name for name in names if self._models[name].is_missed()]
            if not any(self._models[name].available() for name in names):
                silent = names
            return f"no version available of: {', '.join(silent)}" if silent else ""

    def reconfigure(
        self, configs: Sequence[ModelConfig] | None, by: Who, undoes: Switch | None = None
    ) -> Switch | None:
        """Available versions of models that stay configured go on answering meanwhile."""
        if configs and not undoes:  # what was in force once is followed as it was
            check_configs(configs)
            for config in configs:
                check_versions(config, self._files.look_now(config.base_path))
        source = self._configs_at_start if configs is None else (lambda: configs)
        listed, sent = list(source()), None if configs is None else to_json(configs)
        with self._configuring:
            before = self.configuration()
            if undoes:
                check_in_force(before, CONFIGURED, undoes)
            after = before.with_value(CONFIGURATION_KIND, "", sent)

            def make() -> list[Change]:
                changes = after.changes_since(before, "")
                for config in listed:
                    changes += self._label_changes(config)
                return changes

            switch = self.chosen.switch(make, by, undoes=undoes.id if undoes else None)
            if switch is None:
                return None
            with self._lock:
                self._configs, self.sent = source, sent
                self._configure(listed)
                for config in listed:
                    self._models[config.name].has_labels_written = True
        self.scan_soon()
        return switch

    def wait_until_served(
        self,
        configs: Sequence[ModelConfig],
        timeout: float,
        is_awaited: IsAwaited,
    ) -> None:
        deadline = time.monotonic() + min(timeout, RELOAD_SECONDS)
        self._wait_for(lambda: self._not_served(configs), deadline, is_awaited)

    def _wait_for(
        self,
        list_waiting: Callable[[], list[str]],
        deadline: float,
        is_awaited: IsAwaited,
    ) -> None:
        """Scan until the list of models that are waited for is empty."""
        with self._scanned:
            self.scan_soon()
            while waiting := list_waiting():
                left = deadline - time.monotonic()
                if left <= 0 or self._closed:
                    names = ", ".join(waiting)
                    raise DeadlineExceeded(
                        f"the new models are not available yet: {names}; they go on loading"
                    )
                if not is_awaited():
                    raise Cancelled(
                        "the client stopped waiting for the new models; they go on loading"
                    )
                if not self._scanned.wait(min(left, RELOAD_POLL_SECONDS)):
                    self.scan_soon()

    def load_model(
        self,
        name: str,
        choose: Callable[[], object],
        timeout: float,
        is_awaited: IsAwaited,
    ) -> None:
        deadline = time.monotonic() + min(timeout, RELOAD_SECONDS)
        with self._lock:
            scan = self._begun + 1
            known = self._models.get(name)
        self._files.look_now(known.config.base_path if known else "")
        # It may be new.
        self._wait_for(lambda: [] if self._done >= scan else [name], deadline, is_awaited)
        if name not in self.models():
            trouble = "".join(f"; {trouble}" for trouble in self._troubles)
            raise NotFound(
                f"there is no model {name} to load: expected a folder of that name with numeric "
                f"folders among the models, or a configuration that names it{trouble}"
            )
        choose()
        with self._lock:
            scan = self._begun + 1
            for version in self._model(name).versions.values():
                version.is_wanted_again |= bool(version.error)
                version.error = ""
        self._wait_for(
            lambda: self._not_loaded(name) if self._done >= scan else [name], deadline, is_awaited
        )

    def _not_loaded(self, name: str) -> list[str]:
        """The model while one of its versions is still to be loaded, or to be looked at.

        Raises FailedPrecondition for those that do not load.
        """
        model = self._model(name)
        wanted = model.wanted()
        for version in wanted:
            version.is_wanted_again |= version.is_exported_again
        if any(version.is_due() for version in wanted):
            return [name]
        reasons = [f"{version.id}: {version.failure}" for version in wanted if version.error]
        if reasons or not wanted:
            answering = ", ".join(map(str, model.available())) or "none"
            raise FailedPrecondition(
                f"not every version of {name} is loaded: "
                f"{'; '.join(reasons) or 'its folder holds none that is to be'}; "
                f"available versions: {answering}"
            )
        return []

    def _not_served(self, configs: Sequence[ModelConfig]) -> list[str]:
        """The models that are not available yet as in these configurations,
        without those removed meanwhile.
        """
        models = [self._models[config.name] for config in configs if config.name in self._models]
        waiting = [model for model in models if not model.removed and not model.is_served()]
        failed = [version for model in waiting for version in model.list_failed()]
        if failed and not any(model.is_new or model.is_loading() for model in waiting):
            reasons = "; ".join(f"{each.id}: {each.error}" for each in failed)
            raise DogsnapError(f"Some models did not become available: {reasons}")
        return sorted(model.name for model in waiting)

    def _is_loading(self) -> bool:
        with self._lock:
            return any(model.is_loading() for model in self._models.values())

    def scan_safely(self) -> None:
        """Loaded versions go on answering, whatever prevents it."""
        try:
            troubles = self.scan()
        except (DogsnapError, OSError) as error:
            troubles = [str(error)]
        except Exception as error:
            troubles = [repr(error)]
            log.debug("scanning the model folders failed", exc_info=error)
        unready = self.not_ready() if self.started else ""
        if unready and unready != self._unready:
            log.warning("not ready: %s", unready)
        for trouble in troubles:
            if trouble not in self._troubles:
                log.error(
                    "scanning the model folders failed; the loaded versions go on answering: %s",
                    trouble,
                )
        with self._scanned:
            self._unready, self._troubles, self._done = unready, troubles, self._begun
            self._scanned.notify_all()

    def scan(self, skip_settling: bool = False) -> list[str]:
        """Load and unload what differs from configuration and folders; with
        `skip_settling` without waiting for a second scan.

        Returns what prevented it for single models; the others are not
        affected.
        """
        with self._scanning:
            with self._lock:
                self._begun += 1
            configs = self._configs
            listed = list(configs())  # reads a folder or a file, hence without the lock
            if not self.chosen.is_known:
                self.chosen.follow()
            if not self.chosen.is_known:  # what nobody chose must not answer
                raise Unavailable(NOT_KNOWN)
            with self._configuring:
                with self._lock:
                    is_current = configs is self._configs  # no new configuration was sent meanwhile
                    if is_current:
                        self._configure(listed)
                if is_current:
                    self._write_labels()
            unsettled, troubles = self._files.is_waiting(), self._files.troubles()
            for name in self.models():
                try:
                    unsettled |= self._scan_model(self._models[name], skip_settling)
                except OSError as error:
                    troubles.append(f"{name}: {error}")
            was_started = self.started
            with self._scanned:
                self.started = was_started or not unsettled
                self._scanned.notify_all()
            if self.started:
                self._note_defaults(is_first=not was_started)
            self._finish_unloads()
            return troubles

    def _configure(self, configs: list[ModelConfig]) -> None:
        """Apply these, with the lock held; the next scan loads versions."""
        for config in configs:
            model = self._models.get(config.name)
            if model is None:
                model = self._models[config.name] = Model(config)
                self._adopt_choices(model)
                model.was_ready = model.answering is not None
            elif model.config != config:
                model.config, model.is_new, model.has_labels_written = config, True, False
            model.is_named = self.sent is not None or self._is_named(config.name)
            model.is_new |= model.removed
            model.removed = False
        for name in set(self._models) - {config.name for config in configs}:
            self._models[name].removed = True
            self._retire(self._models[name], self._models[name].available())

    def _write_labels(self) -> None:
        """Write changed labels of the configuration; labels that were switched
        since are kept.

        A server writes its own changes alone: with another one's configuration
        it does not compete.
        """
        for model in list(self._models.values()):
            if not model.has_labels_written:
                change_labels = partial(self._label_changes, model.config)
                try:
                    self.chosen.switch(change_labels, CONFIGURATION)
                    model.has_labels_written = True
                except (Aborted, Unavailable) as error:  # the next scan tries again
                    log.debug("the labels of %s wait: %s", model.name, error)

    def _label_changes(self, config: ModelConfig) -> list[Change]:
        """Of the labels that the configuration sets otherwise than the last one did."""
        before = self.chosen.configured_labels(config.name)
        after = dict(config.version_labels)
        choices = self.chosen.choices(config.name)
        with self._lock:
            model = self._models.get(config.name)
            available = tuple(model.available()) if model else ()
        moved = choices
        for label in {*before, *after}:
            if before.get(label) != after.get(label):
                moved = moved.with_value("label", label, after.get(label))
        moved = keep_answering(choices, moved, Versions(config.name, available))
        return moved.changes_since(choices, config.name)

    def _scan_model(self, model: Model, skip_settling: bool) -> bool:
        """Returns whether there is a folder that may still be changing."""
        config = model.config
        folders = version_folders(self._files.folder(config.base_path))
        if (
            not folders and model.available()
        ):  # the disk is not mounted, or the versions are being replaced
            raise OSError(
                f"all version folders of {without_secrets(config.base_path)} are gone; is the disk "
                "mounted?"
            )
        trouble = "" if folders else describe_base_path(config.base_path)
        if trouble and trouble != model.trouble:
            log.warning("%s has no version: %s", model.name, trouble)
        model.trouble = trouble
        unsettled = False
        with self._lock:
            numbers = sorted(model.versions_to_load(folders), reverse=True)
            tracked = [model.track(number, folders[number]) for number in numbers]
        for version in tracked:
            if model.config is config:
                unsettled |= self._scan_version(model, version, skip_settling)
        with self._lock:  # choices and configuration may have changed while versions were loaded
            if model.config is not config or model.removed:
                return True
            model.is_new &= unsettled
            wanted = model.versions_to_load(folders)
            unwanted = [number for number in model.available() if number not in wanted]
            self._retire(model, unwanted, keep_one=bool(wanted))
        return unsettled

    def _scan_version(self, model: Model, version: Version, skip_settling: bool) -> bool:
        """Load it if that is due; returns whether its folder may still be changing."""
        files_before, trouble = version.files, find_fault(version.path)
        try:
            version.files = fingerprint(version.path)
        except OSError as error:
            trouble = describe_unreadable(version.path, error)
        if trouble:
            trouble += "; it is loaded once a scan finds it whole and readable"
        newest = max((entry[-1] for entry in version.files), default=0) / 1e9
        is_old = not self.started and time.time() - newest > SETTLED_SECONDS
        is_settled = not trouble and (is_old or version.files == files_before)
        if not self._wants_load(version):
            if version.state == State.AVAILABLE and is_settled:
                self._notice_export(version)
            return False
        if skip_settling or is_settled:
            self._load(model, version)
            return False
        if trouble and trouble != version.error:
            log.info("%s is not loaded yet: %s", version.id, trouble)
        with self._lock:
            version.error = trouble
        return not trouble

    def _wants_load(self, version: Version) -> bool:
        if version.state == State.START or version.is_wanted_again:
            return True
        if version.state != State.END and not version.is_elsewhere():
            return False
        is_due = time.monotonic() - version.failed_at >= self.retry_seconds
        return not version.error or is_due or version.files != version.tried

    def _notice_export(self, version: Version) -> None:
        """Note whether the folder of a version that answers was exported again."""
        if version.files == version.tried:
            return
        version.tried = version.files
        try:
            found = digest(version.path)
        except OSError:
            return
        with self._lock:
            version.is_exported_again = found != version.digest
        if version.note:
            log.warning("%s: %s", version.id, version.note)

    def _load(self, model: Model, version: Version) -> None:
        with self._lock:
            version.error, version.is_wanted_again = "", False
            self._metrics.expect(version.id)
            version.tried = version.files
            if version.servable is None:
                version.state = State.LOADING
        started = time.monotonic()
        try:
            if self.started:  # the loaded versions must go on answering
                check_memory(version.tried)
            with low_priority.beside_requests(self.started):
                loaded = low_priority.run(digest, version.path)
                servable = LocalServable(version.id, version.path)
                self._prepare(servable)
                records = warm_up(servable)
            # loading leaves up to 90 MB of free heap: the graph's file, read and parsed
            give_back_free()
        except Exception as error:
            # A damaged folder can raise anything; the other versions go on answering.
            kind = "" if isinstance(error, DogsnapError) else f"{type(error).__name__}: "
            with self._lock:
                if version.state == State.LOADING:
                    version.state = State.END
                version.failed_at, version.error = time.monotonic(), f"{kind}{error}"
            self._metrics.failed_loads.labels(*version.id).inc()
            log.error(
                "%s failed to load, next attempt in %g s: %s",
                version.id,
                self.retry_seconds,
                version.error,
            )
            return
        with self._lock:
            version.load_seconds = time.monotonic() - started
            if model.is_kept_out(version.id.version):
                version.state = State.END if version.state == State.LOADING else version.state
                return
            if version.servable is not None:  # from another path; requests that run go on with it
                self._replaced.add(version.servable)
            version.servable, version.state = servable, State.AVAILABLE
            is_another = version.digest not in ("", loaded)
            version.digest, version.is_exported_again = loaded, False
            model.was_ready = True
        if is_another:  # what was counted belongs to the version before
            self._metrics.forget(version.id)
        self._metrics.record_load(version.id, version.load_seconds)
        log.info(
            "loaded %s in %.1f s (%d warm-up records)", version.id, version.load_seconds, records
        )

    def _note_defaults(self, is_first: bool) -> None:
        """Bring to the store which versions answer by default, and to its log the
        defaults that have moved by themselves; while it is away, both wait.

        A version that answers by default goes on doing so when larger ones
        come, unless one is chosen. Only where it went from here another one
        takes its place: another server may have it.
        """
        for model in list(self._models.values()):
            name = model.name
            if model.choices.is_unloaded:  # its default answers again when it is loaded
                continue
            with self._lock:
                default = model.default()
                if model.answering is None and not model.is_new:
                    model.answering = default
                logged = default if is_first else model.logged_default
                model.logged_default = default
            try:
                if model.answering not in (None, self.chosen.answering(name)):
                    self.chosen.note_answering(name, model.answering)
                if default != logged:
                    self.chosen.note_default(name, logged, default)
            except (Aborted, Unavailable) as error:  # the next scan tries again
                model.logged_default = logged
                log.debug("which version of %s answers by default waits: %s", name, error)

    def _retire(self, model: Model, numbers: list[int], keep_one: bool = False) -> None:
        """Give no new request to these versions; they are unloaded at the next
        scan after their last request.

        With `keep_one` the last available one stays. Call it with the lock
        held.
        """
        if keep_one and set(numbers) == set(model.available()):
            numbers = numbers[1:]
        for number in numbers:
            model.versions[number].state = State.UNLOADING
        if model.answering in numbers:
            model.answering = None if model.is_new else model.default()

    def _finish_unloads(self) -> None:
        ended = []
        paths: set[Path] = set()
        with self._lock:
            for model in self._models.values():
                paths.update(version.path for version in model.versions.values())
        deleted = {path for path in paths if not is_folder(path)}  # a disk may hang
        with self._lock:
            for model in self._models.values():
                for version in model.end_idle():
                    ended.append(version)
                    self._metrics.available.labels(*version.id).set(0)
                for gone in model.forget(deleted):
                    self._metrics.forget(gone.id)
            self._models = {
                name: model for name, model in self._models.items() if not model.is_gone()
            }
        for version in ended:
            log.info("unloaded %s from %s", version.id, version.path)
        if ended or self._replaced:
            gc.collect()  # they contain reference cycles
            # without it, 250 of the 320 MB of an Inception v3 stayed with the process (x86-64,
            # glibc 2.36)
            give_back_free()
