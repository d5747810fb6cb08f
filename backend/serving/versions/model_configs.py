"""Which models to serve: those in a folder, or those in TensorFlow Serving's model_config_list."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import json_format, text_format
from tensorflow_serving.config import model_server_config_pb2

from backend.errors import InvalidArgument
from backend.serving.versions.version_folders import aspired_versions, version_folders

ModelConfig: TypeAlias = model_server_config_pb2.ModelConfig


def configured_models(folder: Path, file: str = "") -> list[ModelConfig]:
    """The models of the configuration file if there is one, else every model folder. Raises InvalidArgument."""
    return configs_in_file(Path(file)) if file else configs_in_folder(folder)


def configs_in_folder(models: Path) -> list[ModelConfig]:
    """Every folder in `models` with at least one numeric folder in it, as a model with all its versions."""
    if not models.is_dir():
        return []
    return [_all_versions(child) for child in sorted(models.iterdir()) if child.is_dir() and version_folders(child)]


class ModelFolders:
    """Returns the models of a folder when called, remembering those of earlier calls.

    A model is removed with its folder; if the folder is only empty, the model stays. If no model is left at all, the disk is
    probably not mounted: that raises InvalidArgument.
    """

    def __init__(self, models: Path):
        self._models = models
        self._known: dict[str, ModelConfig] = {}

    def __call__(self) -> list[ModelConfig]:
        found = {config.name: config for config in configs_in_folder(self._models)}
        if self._known and not found:
            raise InvalidArgument(f"{self._models}: no model is left here; expected a folder with numeric folders")
        emptied = {name: config for name, config in self._known.items() if Path(config.base_path).is_dir()}
        self._known = {**emptied, **found}
        return [self._known[name] for name in sorted(self._known)]


def _all_versions(base_path: Path) -> ModelConfig:
    config = ModelConfig(name=base_path.name, base_path=str(base_path.resolve()), model_platform="tensorflow")
    config.model_version_policy.all.SetInParent()
    return config


def configs_in_file(file: Path) -> list[ModelConfig]:
    """The models of a model_config_list in protobuf's text format. Raises InvalidArgument with the parser's message."""
    server_config = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(file.read_text(encoding="utf-8"), server_config)
    except (text_format.ParseError, OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file}: expected a model_config_list in protobuf's text format: {error}") from error
    configs = list(server_config.model_config_list.config)
    check_configs(configs)
    return configs


def check_configs(configs: Sequence[ModelConfig]) -> None:
    """Raises InvalidArgument for a model without a name or a base path, listed twice, or of another platform."""
    names = [config.name for config in configs]
    for config in configs:
        if not config.name or not config.base_path:
            raise InvalidArgument(f"expected a name and a base_path for every model, received {_short(config)}")
        if names.count(config.name) > 1:
            raise InvalidArgument(f"Illegal to list model {config.name} multiple times in config list")
        if config.model_platform not in ("", "tensorflow"):
            raise InvalidArgument(f"expected the model_platform tensorflow, received {_short(config)}")


def check_versions(config: ModelConfig) -> None:
    """Raises InvalidArgument unless the configuration's version policy selects an existing version."""
    folders = version_folders(Path(config.base_path))
    if not folders:
        raise InvalidArgument(
            f"No versions of servable {config.name} found under base path {config.base_path}. "
            "Did you forget to name your leaf directory as a number (eg. '/1/')?"
        )
    if not aspired_versions(config.model_version_policy, folders):
        there = ", ".join(map(str, sorted(folders)))
        raise InvalidArgument(
            f"the model_version_policy of {config.name} selects none of the existing versions: {there}"
        )


def to_json(configs: Sequence[ModelConfig]) -> list[dict[str, Any]]:
    """JSON of the configurations for the log of switches, with protobuf's field names."""
    return [json_format.MessageToDict(config, preserving_proto_field_name=True) for config in configs]


def from_json(configs: Sequence[dict[str, Any]]) -> list[ModelConfig]:
    return [json_format.ParseDict(config, ModelConfig()) for config in configs]


def _short(config: ModelConfig) -> str:
    return text_format.MessageToString(config, as_one_line=True) or "nothing"
