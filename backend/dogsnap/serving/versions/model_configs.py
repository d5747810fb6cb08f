"""Which models to serve: those in a folder, or those in TensorFlow Serving's
model_config_list.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import json_format, text_format
from tensorflow_serving.config import model_server_config_pb2

from dogsnap.errors import InvalidArgument
from dogsnap.model_urls import check_source, is_url, name_of, without_secrets
from dogsnap.serving.versions import saved_model_file
from dogsnap.serving.versions.model_files import ModelFiles
from dogsnap.serving.versions.version_folders import (
    describe_unreadable,
    is_folder,
    model_folders,
    version_folders,
)
from dogsnap.serving.versions.version_policy import aspired_versions
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap.models")

ModelConfig: TypeAlias = model_server_config_pb2.ModelConfig


def model_source(
    settings: Settings, files: ModelFiles | None = None
) -> Callable[[], list[ModelConfig]]:
    """A function that gives the models to serve; it is called at every scan,
    and raises InvalidArgument. `files`: has copies of what is at a URL.
    """
    files = files or ModelFiles()
    if settings.model_config_file:
        read: Callable[[], list[ModelConfig]] = partial(
            configs_in_file, Path(settings.model_config_file)
        )
    elif is_url(settings.model_base_path):
        name = settings.model_name or name_of(settings.model_base_path)
        read = partial(_config_of_url, name, settings.model_base_path)
    elif settings.model_base_path:
        base_path = Path(settings.model_base_path)
        name = settings.model_name or Path(os.path.abspath(base_path)).name
        read = partial(_configs, {name: base_path})
    else:
        read = ModelFolders(settings.models, files)
    return lambda: with_default_policy(read(), settings)


def names_model(settings: Settings, name: str) -> bool:
    """Whether the settings name this model; otherwise it was only found in the
    folder of the models.
    """
    is_listed = bool(settings.model_config_file or settings.model_base_path)
    is_chosen = settings.default_model != Settings().default_model
    return is_listed or (is_chosen and settings.default_model == name)


def with_default_policy(configs: list[ModelConfig], settings: Settings) -> list[ModelConfig]:
    """The models, with the policy of `--version-policy` where there is none;
    changes them.
    """
    for config in configs:
        if (
            settings.version_policy == "latest"
            and config.model_version_policy.WhichOneof("policy_choice") is None
        ):
            config.model_version_policy.latest.num_versions = 1
    return configs


def _configs(folders: Mapping[str, Path]) -> list[ModelConfig]:
    """One for each folder, under its name.

    Raises InvalidArgument for one that cannot be written as UTF-8.

    The paths are resolved, so that a link that is moved to another release is a
    new base path.
    """
    configs = []
    for name, folder in sorted(folders.items()):
        try:
            base_path = os.path.realpath(folder)
            configs.append(ModelConfig(name=name, base_path=base_path, model_platform="tensorflow"))
        except UnicodeEncodeError:
            received = f"received {str(folder)!a}"
            raise InvalidArgument(f"expected a folder whose path is UTF-8, {received}") from None
    return configs


def _config_of_url(name: str, url: str) -> list[ModelConfig]:
    return [ModelConfig(name=name, base_path=url, model_platform="tensorflow")]


class ModelFolders:
    """Returns the models of a folder when called, remembering those of earlier
    calls: every folder in it with at least one numeric folder, or itself if it
    holds versions.

    A model is removed with its folder; if the folder is only empty or cannot be
    read, the model stays. If no model is left, the disk is probably not
    mounted: that raises InvalidArgument. What cannot be served is left out, and
    logged once.
    """

    def __init__(self, models: str | Path, files: ModelFiles | None = None):
        self._models, self._files = str(models), files or ModelFiles()
        self._known: dict[str, Path] = {}
        self._troubles: dict[Path, str] = {}

    def __call__(self) -> list[ModelConfig]:
        models = self._files.folder(self._models)
        try:
            found, troubles = model_folders(models)
        except OSError as error:
            raise InvalidArgument(describe_unreadable(models, error)) from error
        staying = {name: folder for name, folder in self._known.items() if is_folder(folder)}
        if self._known and not staying | found:
            raise InvalidArgument(
                f"{self._models}: no model is left here; expected a folder with numeric folders"
            )
        self._known = staying | found
        self._warn(
            {path: trouble for path, trouble in troubles.items() if path.name not in staying}
        )
        return _configs(self._known)

    def _warn(self, troubles: dict[Path, str]) -> None:
        for path, trouble in troubles.items():
            if self._troubles.get(path) != trouble:
                log.warning("%s; it is left out until that changes", trouble)
        self._troubles = troubles


def configs_in_file(file: Path) -> list[ModelConfig]:
    """The models of TensorFlow Serving's text or Simple TensorFlow Serving's
    JSON. Raises InvalidArgument.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        if text.lstrip().startswith("{"):
            configs = _of_json(text)
        else:
            parsed = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
            if not parsed.HasField("model_config_list"):  # it is being written, or cut off
                raise ValueError("there is no model_config_list in it")
            configs = list(parsed.model_config_list.config)
    except OSError as error:
        raise InvalidArgument(
            f"the configuration {file} cannot be read: {error.strerror}"
        ) from error
    except (text_format.ParseError, json_format.ParseError, ValueError) as error:
        expected = (
            "expected a model_config_list in protobuf's text format, or Simple "
            "TensorFlow Serving's JSON"
        )
        raise InvalidArgument(f"{file}: {expected}: {error}") from error
    check_configs(configs)
    return configs


def _of_json(text: str) -> list[ModelConfig]:
    """{"model_config_list": [{"name", "base_path", "platform"}]}; paths as they
    are given there, from the working directory.
    """
    models = json.loads(text).get("model_config_list")
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise ValueError(
            'expected {"model_config_list": [{"name": ..., "base_path": ..., "platform": ...}]}'
        )
    for model in models:
        if "platform" in model:
            model["model_platform"] = model.pop("platform")
    return from_json(models)


def check_configs(configs: Sequence[ModelConfig]) -> None:
    """Raises InvalidArgument for a model without a name or a base path, listed
    twice, or of another platform.
    """
    names = [config.name for config in configs]
    for config in configs:
        if not config.name or not config.base_path:
            raise InvalidArgument(
                f"expected a name and a base_path for every model, received {_short(config)}"
            )
        if is_url(config.base_path):
            check_source(f"the base_path of {config.name}", config.base_path)
        if names.count(config.name) > 1:
            raise InvalidArgument(
                f"Illegal to list model {config.name} multiple times in config list"
            )
        if config.model_platform not in ("", "tensorflow"):
            raise InvalidArgument(
                f"expected the model_platform tensorflow, received {_short(config)}"
            )


def describe_base_path(base_path: str) -> str:
    """Why no version is found at a base path, and what is expected there."""
    expected = "expected a folder with one numeric folder for each version"
    path = Path(base_path)
    if is_url(base_path):
        return f"{without_secrets(base_path)} holds no version that could be copied; {expected}"
    if saved_model_file.find(path) is not None:
        return f"{base_path} is a single version; {expected}: {path.parent}"
    if not path.is_dir():
        return f"there is no folder {base_path}; {expected}"
    return f"{base_path} holds no folder with a number; {expected}"


def check_versions(config: ModelConfig, folder: Path) -> None:
    """Raises InvalidArgument unless the configuration's version policy selects
    an existing version of the `folder` with its versions.
    """
    try:
        folders = version_folders(folder)
    except OSError as error:
        unreadable = describe_unreadable(folder, error)
        raise InvalidArgument(f"the base_path of {config.name}: {unreadable}") from error
    if not folders:
        raise InvalidArgument(
            f"No versions of servable {config.name} found under base path "
            f"{without_secrets(config.base_path)}. "
            "Did you forget to name your leaf directory as a number (eg. '/1/')?"
        )
    if not aspired_versions(config.model_version_policy, folders):
        existing = ", ".join(map(str, sorted(folders)))
        policy = f"the model_version_policy of {config.name}"
        raise InvalidArgument(f"{policy} selects none of the existing versions: {existing}")


def to_json(configs: Sequence[ModelConfig]) -> list[dict[str, Any]]:
    """JSON of the configurations for the log of switches, with protobuf's field names."""
    return [
        json_format.MessageToDict(config, preserving_proto_field_name=True) for config in configs
    ]


def from_json(configs: Sequence[dict[str, Any]]) -> list[ModelConfig]:
    return [json_format.ParseDict(config, ModelConfig()) for config in configs]


def _short(config: ModelConfig) -> str:
    return text_format.MessageToString(config, as_one_line=True) or "nothing"
