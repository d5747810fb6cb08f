"""Builds the predictor from the settings: repository, executor, metrics."""

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from dogsnap.errors import DogsnapError
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.store_opening import name_store, open_store
from dogsnap.serving.execution.batching import BatchingParameters
from dogsnap.serving.execution.executor import Executor
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.feedback.feedback_store import Store
from dogsnap.serving.feedback.signed_ids import Signer, read_or_create_secret
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.repository.local_repository import LocalRepository
from dogsnap.serving.versions.model_configs import ModelConfig, model_source, names_model
from dogsnap.serving.versions.model_files import ModelFiles
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap.serving")


def check_configuration(settings: Settings) -> None:
    """Raises InvalidArgument if the files that describe models or batching
    cannot be read.
    """
    model_source(settings)()
    _preparation(settings, Metrics())


def create_predictor(
    settings: Settings, only: ModelSpec | None = None, metrics: Metrics | None = None
) -> Predictor:
    """For the configured models, which load when it starts; with `only`, that
    spec's versions are loaded now.
    """
    metrics, files = metrics or Metrics(), ModelFiles()
    configs = model_source(settings, files)
    _check_default_model(settings, [config.name for config in configs()])
    repository = LocalRepository(
        lambda: _keep_one_version(configs(), only),
        metrics,
        prepare=_preparation(settings, metrics),
        is_named=lambda name: names_model(settings, name),
        store=open_store(name_store(settings)) if only is None else None,
        files=files,
    )
    if only is not None:
        repository.scan(skip_settling=True)
    return predictor_over(
        repository, Executor(settings.run_threads, settings.queue_size), metrics, settings
    )


def _check_default_model(settings: Settings, names: Sequence[str]) -> None:
    """Say it where a default model was named that there is not (yet)."""
    is_named = settings.default_model != Settings().default_model
    if is_named and names and settings.default_model not in names:
        log.warning(
            "--default-model %s waits for a model of that name, there are: %s; until "
            "then, requests that name none %s",
            settings.default_model,
            ", ".join(sorted(names)),
            f"are answered by {names[0]}" if len(names) == 1 else "are refused",
        )


def _preparation(settings: Settings, metrics: Metrics) -> Callable[[LocalServable], None]:
    """What each version gets from the settings when it is loaded.

    Raises InvalidArgument.
    """
    file = settings.batching_parameters_file
    parameters = BatchingParameters.read(Path(file)) if file else BatchingParameters()

    def prepare(servable: LocalServable) -> None:
        servable.max_answer_mb = settings.max_answer_mb
        if settings.enable_batching:
            servable.enable_batching(parameters, partial(metrics.ran, servable.id))

    return prepare


def predictor_over(
    repository: ModelRepository, executor: Executor, metrics: Metrics, settings: Settings
) -> Predictor:
    metrics.watch("dogsnap_places_held", "requests that run or wait", lambda: executor.held)
    metrics.watch("dogsnap_queue_length", "requests that wait for a run thread", executor.waiting)
    metrics.watch("dogsnap_places", "most requests that may run or wait", lambda: executor.capacity)
    metrics.watch_splits(repository.chosen.splits)
    text = (
        "1 while every model that is configured or was ready before has an available "
        "version, as /readyz"
    )
    metrics.watch("dogsnap_ready", text, lambda: not repository.not_ready())
    return Predictor(repository, executor, metrics, settings)


def create_feedback(
    settings: Settings, predictor: Predictor, is_patient: bool = False
) -> Feedback | None:
    """None if no feedback is to be taken; what `is_patient` goes on without its file,
    as on a full disk, until it can be used.

    Otherwise raises OSError, sqlite3.Error, DogsnapError for a file that cannot be used.
    """
    if not settings.feedback:
        return None
    file = Path(settings.feedback)
    store = Store(file, settings.feedback_days, is_patient)
    try:
        secret = settings.feedback_secret.encode() or read_or_create_secret(
            file.with_name(f"{file.name}.secret")
        )
    except (OSError, DogsnapError) as error:
        if not is_patient:
            raise
        log.error("feedback on what is answered from now on cannot be taken: %s", error)
        secret = secrets.token_bytes()
    repository, metrics = predictor.repository, predictor.metrics
    return Feedback(store, Signer(secret), repository, metrics)


def _keep_one_version(configs: Iterable[ModelConfig], only: ModelSpec | None) -> list[ModelConfig]:
    if only is None:
        return list(configs)
    kept = [config for config in configs if config.name == only.name]
    for config in kept:
        if only.version is not None:
            config.model_version_policy.specific.versions[:] = [only.version]
        elif only.label is None:
            config.model_version_policy.latest.num_versions = 1
    return kept
