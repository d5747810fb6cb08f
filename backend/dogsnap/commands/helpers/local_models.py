"""The models on this machine: what a command is asked for is checked against
them before TensorFlow is loaded.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from dogsnap.model_urls import is_url, without_secrets
from dogsnap.settings import Settings, flag

GRAPHS = ("saved_model.pb", "saved_model.pbtxt")


def refuse_missing_models(settings: Settings) -> None:
    """Raises click.ClickException if the folder or the file that names the
    models is missing, or is that of one version.
    """
    if settings.engine:
        return
    if file := settings.model_config_file:
        if not Path(file).is_file():
            raise click.ClickException(f"there is no file {file}; name it with --model-config-file")
        return
    name, expected = "models", "the folder of the models"
    if settings.model_base_path:
        name, expected = "model_base_path", "the folder with the numeric folders of one model"
    source = getattr(settings, name)
    if is_url(source):
        raise click.ClickException(
            f"{flag(name)} is {without_secrets(source)}, which servers read; copy {expected} here"
        )
    folder = Path(source).resolve()
    if not folder.is_dir():
        raise click.ClickException(
            f"there is no folder {folder}; name {expected} with {flag(name)}"
        )
    if any((folder / name).is_file() for name in GRAPHS):
        raise click.ClickException(
            f"{folder} is a single version; name the folder of its model with "
            f"{flag(name)}: {folder.parent}"
        )


def only_model(settings: Settings) -> str:
    """The model's name where the settings name the folder of one model, otherwise ""."""
    if settings.model_config_file:
        return ""
    if settings.model_base_path:
        return settings.model_name or Path(os.path.abspath(settings.model_base_path)).name
    is_model = any(any(Path(settings.models).glob(f"[0-9]*/{name}")) for name in GRAPHS)
    return Path(os.path.abspath(settings.models)).name if is_model else ""


def candidates(settings: Settings, model: str, version: int | None, label: str | None) -> list[int]:
    """The versions that may answer, the first that can be loaded does.

    Raises click.ClickException, naming what there is.
    """
    if version is not None and label is not None:
        raise click.UsageError(
            f"expected a version or a label, received both: {version} and {label}"
        )
    models, all_labels = (
        _in_file(settings) if settings.model_config_file else (_in_folders(settings), {})
    )
    if model not in models:
        there = ", ".join(sorted(models)) or "none"
        raise click.ClickException(
            f"Servable not found for request: Latest({model}); models on disk: {there}"
        )
    versions, labels = models[model], all_labels.get(model, {})
    numbers = ", ".join(map(str, sorted(versions))) or "none"
    if label is not None and label not in labels:
        known = (
            ", ".join(sorted(labels))
            or "none here (they are a server's: ask it with --url, or name a version)"
        )
        raise click.ClickException(
            f"Unrecognized servable version label: {label}; versions of {model} on "
            f"disk: {numbers}; labels: {known}"
        )
    wanted = version if label is None else labels[label]
    if wanted is not None and wanted not in versions:
        raise click.ClickException(
            f"Servable not found for request: Specific({model}, {wanted}); versions on "
            f"disk: {numbers}"
        )
    return versions if wanted is None else [wanted]


def _in_folders(settings: Settings) -> dict[str, list[int]]:
    """The versions of each model of --models or --model-base-path, largest first."""
    folder = Path(settings.model_base_path or settings.models)
    if name := only_model(settings):
        return {name: _numbers(folder)}
    found = {}
    for child in sorted(folder.iterdir()):
        if numbers := _numbers(child):
            found[child.name] = numbers
    return found


def _numbers(folder: Path) -> list[int]:
    """The numbers of the folders in `folder`, largest first; none where it
    cannot be read.
    """
    try:
        names = [child.name for child in folder.iterdir() if child.is_dir()]
    except OSError:
        return []
    return sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)


def _in_file(settings: Settings) -> tuple[dict[str, list[int]], dict[str, Mapping[str, int]]]:
    """The versions of each model of --model-config-file, and its labels.

    It loads TensorFlow. Raises InvalidArgument.
    """
    from dogsnap.serving.versions.model_configs import model_source
    from dogsnap.serving.versions.version_folders import version_folders
    from dogsnap.serving.versions.version_policy import aspired_versions

    versions, labels = {}, {}
    for config in model_source(settings)():
        found = aspired_versions(
            config.model_version_policy, version_folders(Path(config.base_path))
        )
        versions[config.name] = sorted(found, reverse=True)
        labels[config.name] = config.version_labels
    return versions, labels
