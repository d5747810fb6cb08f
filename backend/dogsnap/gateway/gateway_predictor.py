"""Builds a predictor whose models run in an engine, from the settings."""

from functools import partial
from pathlib import Path

from dogsnap.allocator import give_back_large
from dogsnap.gateway.client import EngineClient
from dogsnap.gateway.engine_repository import EngineRepository
from dogsnap.gateway.ray_client import RayClient
from dogsnap.gateway.target import Target
from dogsnap.routing.chosen_versions import ChosenVersions
from dogsnap.routing.store_opening import name_store, open_store
from dogsnap.serving.assembly import check_configuration, predictor_over
from dogsnap.serving.execution.executor import InlineExecutor
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.versions.model_configs import model_source, names_model
from dogsnap.serving.versions.model_files import ModelFiles
from dogsnap.settings import MEBIBYTE, Settings


def create_gateway(settings: Settings, metrics: Metrics) -> Predictor:
    """A predictor for the configured models that calls the engines of
    `settings.engine`. Call it after the fork.
    """
    check_configuration(settings)
    give_back_large()
    # The engine has the queue: an admitted request is forwarded at once, so that slow
    # answers delay no others.
    executor = InlineExecutor(settings.run_threads + settings.queue_size)
    target = Target.parse(settings.engine)
    max_answer_bytes = settings.max_answer_mb * MEBIBYTE
    chosen = ChosenVersions(open_store(name_store(settings)))
    if target.is_ray:
        engine: EngineClient = RayClient(target, max_answer_bytes, metrics, chosen)
    else:
        engine = EngineClient(target, max_answer_bytes, metrics)
    only = Path(settings.models) / settings.default_model
    is_named = partial(names_model, settings)
    files = ModelFiles()
    configs = model_source(settings, files)
    repository = EngineRepository(engine, configs, files, only, executor, chosen, is_named)
    engines = engine.engines.all
    metrics.watch("dogsnap_engines", "engines behind this gateway", lambda: len(engines()))
    text = "engines behind this gateway that do not answer"
    metrics.watch("dogsnap_engines_silent", text, lambda: sum(not e.answers for e in engines()))
    text = "engines behind this gateway that answer and lack a version that is chosen"
    metrics.watch("dogsnap_engines_lacking", text, lambda: len(dict(repository.lacking())))
    return predictor_over(repository, executor, metrics, settings)
