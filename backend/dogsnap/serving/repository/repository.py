"""Watches the model folders, loads and unloads versions, and hands out the version that a request asks for."""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dogsnap.allocator import give_back_free
from dogsnap.errors import Cancelled, DeadlineExceeded, DogsnapError, FailedPrecondition
from dogsnap.routing.resolver import find_model, numbers_for_status, resolve
from dogsnap.routing.switch_log import SwitchLog
from dogsnap.routing.switches import CONFIGURATION, CONFIGURED, WATCHER, Default, Label, Switch, Who
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.repository.model import Model, ModelSpec, State, Version, VersionStatus
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.model_configs import ModelConfig, to_json
from dogsnap.serving.versions.servable import Servable
from dogsnap.serving.versions.version_folders import (
    Fingerprint,
    aspired_versions,
    describe_unreadable,
    fingerprint,
    missing,
    version_folders,
)
from dogsnap.serving.versions.warmup import warm_up

log = logging.getLogger("dogsnap.repository")

# A folder unchanged for this long when the server starts is considered complete after one scan.
SETTLED_SECONDS = 2.0
# While a client waits for a new configuration: the interval of scans, and the longest wait if the client set no deadline.
RELOAD_POLL_SECONDS = 1.0
RELOAD_SECONDS = 600.0


class Repository(ModelRepository):
    """All models and their versions. Thread-safe; `acquire` is the only way to get a servable."""

    def __init__(
        self,
        configs: Callable[[], Iterable[ModelConfig]],
        metrics: Metrics | None = None,
        retry_seconds: float = 60.0,
        run_warm_up: bool = True,
        switches: SwitchLog | None = None,
        prepare: Callable[[Servable], None] = lambda _: None,
        is_named: Callable[[str], bool] = lambda _: True,
    ):
        """`configs` is called at every scan, `prepare` with each version that was loaded, before it is warmed up.

        `is_named` says of a model whether the configuration names it, and not only a folder that it was found in.
        """
        super().__init__()
        self._configs = self._configs_at_start = configs
        # The configuration that was sent to the running server; None while it uses that of its start.
        self.sent: list[dict[str, Any]] | None = None
        self._metrics = metrics or Metrics()
        self.switches = switches or SwitchLog()
        self._retry_seconds = retry_seconds
        self._run_warm_up = run_warm_up
        self._prepare = prepare
        self._is_named = is_named
        self._models: dict[str, Model] = {}
        self._changing = (
            threading.RLock()
        )  # taken before `_lock`, and kept while the disk is written
        self._scanning = threading.Lock()
        self._scanned = threading.Condition(self._lock)
        self._replaced: weakref.WeakSet[Servable] = weakref.WeakSet()
        self._unready = ""
        self._troubles: list[str] = []

    @contextmanager
    def acquire(self, spec: ModelSpec) -> Iterator[Servable]:
        """The servable for `spec`, loaded until the block ends. Raises as `resolve`, and NotFound for no such model."""
        with self._lock:
            version = resolve(self._model(spec.name), spec, self.started)
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
        return find_model(self._models, name, self.started)

    def models(self) -> list[str]:
        with self._lock:
            return sorted(name for name, model in self._models.items() if not model.removed)

    def available(self, name: str) -> list[int]:
        """The numbers of a model's available versions, largest first. Raises NotFound."""
        with self._lock:
            return self._model(name).available()

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        """The states of a model's versions, largest first; of one version if `spec` names it. Raises NotFound."""
        with self._lock:
            return [
                self._models[spec.name].status(each)
                for each in numbers_for_status(self._models, spec)
            ]

    def labels(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """A model's labels: those in force, and those that wait for their version."""
        with self._lock:
            model = self._model(name)
            return dict(model.labels), model.pending_labels

    def default_version(self, name: str) -> int | None:
        with self._lock:
            return self._model(name).default()

    def splits(self) -> list[tuple[str, str, int, float]]:
        """Every model's splits: model, label ("" for the default), version, share in (0, 1]."""
        with self._lock:
            splits = {name: self._models[name].choices.splits() for name in self.models()}
        return [
            (name, label, it.version, it.share)
            for name, each in splits.items()
            for label, it in each.items()
        ]

    def shadow_of(self, answered: ServableId) -> int | None:
        """The shadow for photos that `answered` has answered; None if there is none, or the model was removed."""
        with self._lock:
            model = self._models.get(answered.name)
            shadow = model.choices.shadow if model else None
            return None if shadow == answered.version else shadow

    @contextmanager
    def switching(self, name: str) -> Iterator[Model]:
        """A model with the lock held, so that requests see all of a switch or nothing of it. Raises NotFound."""
        with self._lock:
            yield self._model(name)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One switch at a time, from its check until it is written and applied; requests are answered meanwhile."""
        with self._changing:
            yield
            self.switches.write()

    def list_versions(self, name: str) -> None:
        """See which versions are on disk, without the lock: a disk that hangs holds up no request.

        Raises NotFound, and FailedPrecondition for a folder that cannot be read.
        """
        with self._lock:
            model = self._model(name)
        base_path = Path(model.config.base_path)
        try:
            model.folders = version_folders(base_path)
        except OSError as error:
            raise FailedPrecondition(describe_unreadable(base_path, error)) from error

    def not_ready(self) -> str:
        """Why the server is not ready; "" if the first scan is finished, and the models that were ready once or are named by the
        configuration are available: at least one.
        """
        with self._lock:
            if not self.started:
                return "the models are still loading"
            if not self._models:
                return "no model was found: expected a folder of model folders, each with a numeric folder per version"
            names = self.models()
            silent = [name for name in names if self._models[name].is_missed()]
            if not any(self._models[name].available() for name in names):
                silent = names
            return f"no version available of: {', '.join(silent)}" if silent else ""

    def follow(
        self, configs: Sequence[ModelConfig] | None, by: Who, undoes: int | None = None
    ) -> Switch | None:
        """Serve these models until a restart; None: those of the start. Available versions of models that stay configured go on
        answering meanwhile. Returns the switch, None if nothing changed.
        """
        source = self._configs_at_start if configs is None else (lambda: configs)
        listed, sent = list(source()), None if configs is None else to_json(configs)
        with self.changing():
            if self.sent == sent:
                return None
            switch = self.switches.add(by, [(CONFIGURED, self.sent, sent)], undoes)
            with self._lock:
                self._configs, self.sent = source, sent
                self._configure(listed, switch.id)
        self.scan_soon()
        return switch

    def wait_until_served(
        self,
        configs: Sequence[ModelConfig],
        timeout: float,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wait until these models are available as configured, at most `timeout` seconds. Raises DeadlineExceeded, Cancelled once
        `is_awaited` returns False, and an error with the code UNKNOWN, as in TensorFlow Serving, if one fails to load.
        """
        deadline = time.monotonic() + min(timeout, RELOAD_SECONDS)
        with self._scanned:
            self.scan_soon()
            while waiting := self._not_served(configs):
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

    def _not_served(self, configs: Sequence[ModelConfig]) -> list[str]:
        """The models that are not available yet as in these configurations, without those removed meanwhile."""
        models = [self._models[config.name] for config in configs if config.name in self._models]
        waiting = [model for model in models if not model.removed and not model.is_served()]
        failed = [version for model in waiting for version in model.failed()]
        if failed and not any(model.is_new or model.is_loading() for model in waiting):
            reasons = "; ".join(f"{each.id}: {each.error}" for each in failed)
            raise DogsnapError(f"Some models did not become available: {reasons}")
        return sorted(model.name for model in waiting)

    def _is_loading(self) -> bool:
        with self._lock:
            return any(model.is_loading() for model in self._models.values())

    def _scan_safely(self) -> None:
        """Scan, and log what prevents it once, not at every scan; loaded versions go on answering."""
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
        self._unready, self._troubles = unready, troubles

    def scan(self, skip_settling: bool = False) -> list[str]:
        """Load and unload what differs from configuration and folders; with `skip_settling` without waiting for a second scan.

        Returns what prevented it for single models; the others are not affected.
        """
        with self._scanning:
            configs = self._configs
            listed = list(configs())  # reads a folder or a file, hence without the lock
            with self.changing(), self._lock:
                if configs is self._configs:  # otherwise a new configuration was sent meanwhile
                    self._configure(listed)
            unsettled, troubles = False, []
            for name in self.models():
                try:
                    unsettled |= self._scan_model(self._models[name], skip_settling)
                except OSError as error:
                    troubles.append(f"{name}: {error}")
            self._finish_unloads()
            with self._scanned:
                self.started = self.started or not unsettled
                for model in self._models.values():
                    self._keep_answering(model)
                self._scanned.notify_all()
            self.switches.write()
            return troubles

    def _configure(self, configs: list[ModelConfig], part_of: int | None = None) -> None:
        """Apply these, with the lock held; the next scan loads versions. `part_of`: the id of the switch that this is, if any."""
        for config in configs:
            model = self._models.get(config.name)
            if model is None:
                model = self._models[config.name] = Model(
                    config, answering=self.switches.answering(config.name)
                )
                model.was_ready = model.answering is not None
                for subject, value in self.switches.chosen(model.name).items():
                    subject.put(model, value)
                self._configure_labels(model, self.switches.configured_labels(model.name), part_of)
            elif model.config != config:
                before, model.config, model.is_new = dict(model.config.version_labels), config, True
                self._configure_labels(model, before, part_of)
            model.is_named = self.sent is not None or self._is_named(config.name)
            model.is_new |= model.removed
            model.removed = False
        for name in set(self._models) - {config.name for config in configs}:
            self._models[name].removed = True
            self.retire(self._models[name], self._models[name].available())

    def _configure_labels(self, model: Model, before: dict[str, int], part_of: int | None) -> None:
        """Apply changed labels of the configuration; labels that were switched since are kept."""
        after = dict(model.config.version_labels)
        for label in sorted({*before, *after}):
            if before.get(label) != after.get(label):
                subject, value = Label(model.name, label), after.get(label)
                changes = [(subject, subject.read(model), value), *subject.ends(model)]
                for each, _, new in changes:
                    each.put(model, new)
                self.switches.note(CONFIGURATION, changes, part_of)

    def _scan_model(self, model: Model, skip_settling: bool) -> bool:
        """Returns whether there is a folder that may still be changing."""
        config = model.config
        folders = version_folders(Path(config.base_path))
        if (
            not folders and model.available()
        ):  # the disk is not mounted, or the versions are being replaced
            raise OSError(f"no version is left in {config.base_path}")
        unsettled = False
        with self._lock:
            aspired = self._aspired(model, folders)
            tracked = [
                model.track(number, folders[number]) for number in sorted(aspired, reverse=True)
            ]
        for version in tracked:
            if model.config is config and self._wants_load(version):
                if skip_settling or self._is_settled(version):
                    self._load(model, version)
                else:
                    unsettled |= not version.error
        with (
            self.changing(),
            self._lock,
        ):  # choices and configuration may have changed while versions were loaded
            if model.config is not config or model.removed:
                return True
            model.is_new &= unsettled
            aspired = self._aspired(model, folders)
            self.retire(
                model, [n for n in model.available() if n not in aspired], keep_one=bool(aspired)
            )
        return unsettled

    def _aspired(self, model: Model, folders: dict[int, Path]) -> set[int]:
        """The existing versions that version policy and choices select. Call with the lock held."""
        return model.choices.aspired(
            aspired_versions(model.config.model_version_policy, folders), folders
        )

    def _wants_load(self, version: Version) -> bool:
        if version.state == State.START:
            return True
        if version.state != State.END and not version.is_elsewhere():
            return False
        retry = time.monotonic() - version.failed_at >= self._retry_seconds
        return not version.error or retry or self._has_changed(version)

    def _has_changed(self, version: Version) -> bool:
        try:
            return fingerprint(version.path) != version.fingerprint
        except OSError:
            return False

    def _is_settled(self, version: Version) -> bool:
        """Whether the folder is complete and unchanged since the last scan, so that it is not being copied."""
        now: Fingerprint = ()
        error = ""
        try:
            if lacks := missing(version.path):
                error = f"{version.path} still lacks {lacks}; it is loaded when that is there"
            else:
                now = fingerprint(version.path)
        except OSError as unreadable:
            error = describe_unreadable(version.path, unreadable)
            if version.error != error:
                log.warning("%s: %s; it is loaded when it can be read", version.id, error)
        newest = max((entry[-1] for entry in now), default=0) / 1e9
        untouched = not self.started and time.time() - newest > SETTLED_SECONDS
        with self._lock:
            settled = not error and (untouched or version.fingerprint == now)
            version.fingerprint, version.error = now, error
        return settled

    def _load(self, model: Model, version: Version) -> None:
        with self._lock:
            version.error = ""
            if not version.is_elsewhere():
                version.state = State.LOADING
        started = time.monotonic()
        try:
            version.fingerprint = fingerprint(version.path)
            servable = Servable.load(version.id, version.path)
            self._prepare(servable)
            records = warm_up(servable) if self._run_warm_up else 0
            give_back_free()  # loading leaves up to 90 MB of free heap: the graph's file, read and parsed
        except (
            Exception
        ) as error:  # a damaged folder can raise anything; the other versions go on answering
            with self._lock:
                if version.state == State.LOADING:
                    version.state = State.END
                version.failed_at = time.monotonic()
                version.error = (
                    error.message
                    if isinstance(error, DogsnapError)
                    else f"{type(error).__name__}: {error}"
                )
            self._metrics.failed(version.id)
            log.error(
                "%s failed to load, next attempt in %g s: %s",
                version.id,
                self._retry_seconds,
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
            with self._default_noted(model):
                version.servable, version.state = servable, State.AVAILABLE
                model.was_ready = True
            for label, before, number in model.move_labels():
                if self.started:
                    self.switches.note(WATCHER, [(Label(model.name, label), before, number)])
        self._metrics.loaded(version.id, version.load_seconds)
        log.info(
            "loaded %s in %.1f s (%d warm-up records)", version.id, version.load_seconds, records
        )

    @contextmanager
    def _default_noted(self, model: Model) -> Iterator[None]:
        """Log a switch if the default version changes within the block."""
        before = model.default()
        yield
        self._keep_answering(model)
        if self.started and model.default() != before:
            self.switches.note(WATCHER, [(Default(model.name), before, model.default())])

    def _keep_answering(self, model: Model) -> None:
        """The version that answers by default goes on doing so when larger ones come, unless one is chosen."""
        now = model.default()
        if (
            self.started
            and not model.is_new
            and now not in (None, model.choices.default, model.answering)
        ):
            model.answering = now
            self.switches.note_answering(model.name, now)

    def retire(self, model: Model, numbers: list[int], keep_one: bool = False) -> None:
        """Give no new request to these versions, while `switching` the model; they are unloaded at the next scan after their last
        request. With `keep_one` the last available one stays.
        """
        if keep_one and set(numbers) == set(model.available()):
            numbers = numbers[1:]
        with self._default_noted(model):
            for number in numbers:
                model.versions[number].state = State.UNLOADING

    def _finish_unloads(self) -> None:
        ended = []
        with self._lock:
            for model in self._models.values():
                for version in model.end_idle():
                    ended.append(version)
                    self._metrics.unloaded(version.id)
                for gone in model.forget_vanished():
                    self._metrics.forgotten(gone.id)
            self._models = {
                name: model for name, model in self._models.items() if not model.is_gone()
            }
        for version in ended:
            log.info("unloaded %s from %s", version.id, version.path)
        if ended or self._replaced:
            gc.collect()  # they contain reference cycles
            give_back_free()  # without it, 250 of the 320 MB of an Inception v3 stayed with the process (x86-64, glibc 2.36)
