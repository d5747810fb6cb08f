"""The models on this machine: what a command is asked for is checked against them before TensorFlow is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from backend.settings import Settings, flag


@dataclass(frozen=True)
class Found:
    """A model's version numbers, largest first, and its labels, which only a configuration file gives."""

    versions: list[int]
    labels: Mapping[str, int] = field(default_factory=dict)


def refuse_missing_models(settings: Settings) -> None:
    """Raises click.ClickException if the folder or the file that names the models is missing, or is that of one version."""
    if settings.engine:
        return
    if file := settings.model_config_file:
        if not Path(file).is_file():
            raise click.ClickException(f"there is no file {file}; name it with --model-config-file")
        return
    name, expected = "models", "the folder of the models"
    if settings.model_base_path:
        name, expected = "model_base_path", "the folder with the numeric folders of one model"
    folder = Path(getattr(settings, name)).resolve()
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}; name {expected} with {flag(name)}")
    if (folder / "saved_model.pb").is_file():
        raise click.ClickException(
            f"{folder} is a single version; name the folder of its model with {flag(name)}: {folder.parent}"
        )


def in_folders(settings: Settings) -> dict[str, Found]:
    """The models of --models or --model-base-path by name."""
    folder = Path(settings.model_base_path or settings.models)
    if settings.model_base_path or holds_one_model(folder):
        return {settings.model_name or folder.resolve().name: Found(_numbers(folder))}
    numbers = {child.name: _numbers(child) for child in sorted(folder.iterdir()) if child.is_dir()}
    return {name: Found(found) for name, found in numbers.items() if found}


def in_file(settings: Settings) -> dict[str, Found]:
    """The models of --model-config-file by name. It loads TensorFlow. Raises InvalidArgument."""
    from backend.serving.versions.model_configs import model_source
    from backend.serving.versions.version_folders import aspired_versions, version_folders

    return {
        each.name: Found(
            sorted(aspired_versions(each.model_version_policy, version_folders(Path(each.base_path))), reverse=True),
            dict(each.version_labels),
        )
        for each in model_source(settings)()
    }


def holds_one_model(folder: Path) -> bool:
    return any(folder.glob("[0-9]*/saved_model.pb"))


def _numbers(folder: Path) -> list[int]:
    names = [child.name for child in folder.iterdir() if child.is_dir()]
    return sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)


def candidates(models: Mapping[str, Found], name: str, version: int | None, label: str | None) -> list[int]:
    """The versions that may answer, the first that can be loaded does. Raises click.ClickException, naming what there is."""
    if version is not None and label is not None:
        raise click.UsageError(f"expected a version or a label, received both: {version} and {label}")
    if name not in models:
        there = ", ".join(sorted(models)) or "none"
        raise click.ClickException(f"Servable not found for request: Latest({name}); models on disk: {there}")
    found = models[name]
    numbers = ", ".join(map(str, sorted(found.versions))) or "none"
    if label is not None and label not in found.labels:
        known = (
            ", ".join(sorted(found.labels)) or "none here (they are a server's: ask it with --url, or name a version)"
        )
        raise click.ClickException(
            f"Unrecognized servable version label: {label}; versions of {name} on disk: {numbers}; labels: {known}"
        )
    wanted = version if label is None else found.labels[label]
    if wanted is not None and wanted not in found.versions:
        raise click.ClickException(
            f"Servable not found for request: Specific({name}, {wanted}); versions on disk: {numbers}"
        )
    return found.versions if wanted is None else [wanted]
