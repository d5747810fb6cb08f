"""Finds the version that a request means: by number, by label, or by default, and by the splits of both."""

from collections.abc import Mapping

from dogsnap.errors import InvalidArgument, NotFound, Unavailable
from dogsnap.serving.repository.model import Model, ModelSpec, State, Version


def find_model(models: Mapping[str, Model], name: str, started: bool) -> Model:
    """`started`: the first scan is finished, so `models` is complete. Raises NotFound, or Unavailable before that."""
    if name in models:
        return models[name]
    if not started:
        raise Unavailable(
            f"the server is still starting, {name} may be served in a moment; try again"
        )
    served = ", ".join(sorted(models)) or "none"
    raise NotFound(
        f"Servable not found for request: Latest({name}); models served here: {served}; name one of them in the request, "
        "or start the server with --default-model for requests that name none"
    )


def resolve(model: Model, spec: ModelSpec, started: bool) -> Version:
    """The version that answers `spec`. Raises NotFound, InvalidArgument (no such label), and Unavailable while it loads."""
    number = spec.version if spec.label is None else version_of_label(model, spec.label)
    split = model.choices.split(spec.label or "") if spec.version is None else None
    if split and model.answers(split.version) and split.takes(model.name, spec.sticky_key):
        number = split.version
    return _default(model, started) if number is None else _exactly(model, number)


def numbers_for_status(models: Mapping[str, Model], spec: ModelSpec) -> list[int]:
    """The versions whose status is asked: all of a model, largest first, or the one that `spec` names. Raises NotFound."""
    model = models.get(spec.name)
    if model is None:
        raise NotFound(f"Could not find any versions of model {spec.name}")
    number = spec.version if spec.label is None else version_of_label(model, spec.label)
    if number is not None and number not in model.versions:
        raise NotFound(f"Could not find version {number} of model {spec.name}")
    return sorted(model.versions, reverse=True) if number is None else [number]


def version_of_label(model: Model, label: str) -> int:
    """Raises InvalidArgument, or Unavailable for a label that waits for its version."""
    if label in model.labels:
        return model.labels[label]
    chosen = model.choices.of("label")
    if label in chosen:
        waits = f"label {label} of {model.name} waits for version {chosen[label]}"
        raise Unavailable(f"{waits}, which is not available yet; try again")
    known = ", ".join(sorted(chosen)) or "none"
    raise InvalidArgument(
        f"Unrecognized servable version label: {label}; labels of {model.name}: {known}"
    )


def _default(model: Model, started: bool) -> Version:
    number = model.default()
    is_coming = model.meant_default() not in (None, number) and not started
    if number is not None and not is_coming:
        return model.versions[number]
    if model.is_loading() or not started:
        raise Unavailable(f"{model.name} is still loading; try again")
    asked = f"Servable not found for request: Latest({model.name})"
    reasons = [f"; {version.id} failed to load: {version.error}" for version in model.failed()]
    raise NotFound(f"{asked}; none of its versions is available{''.join(reasons)}")


def _exactly(model: Model, number: int) -> Version:
    version = model.versions.get(number)
    if version and version.state == State.AVAILABLE:
        return version
    if version and version.state in (State.START, State.LOADING):
        raise Unavailable(f"{version.id} is still loading; try again")
    available = ", ".join(map(str, model.available())) or "none"
    why = f"; it failed to load: {version.failure}" if version and version.error else ""
    asked = f"Servable not found for request: Specific({model.name}, {number})"
    raise NotFound(f"{asked}{why}; available versions: {available}")
