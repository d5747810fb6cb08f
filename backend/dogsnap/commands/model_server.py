"""`dogsnap model-server`: the command line of TensorFlow Serving's
tensorflow_model_server.
"""

import os
import tomllib
from collections.abc import Mapping
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.serve import run_server
from dogsnap.flag_names import in_flags_of_command, naming_flags
from dogsnap.settings import flag, table, variable

FLAGS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("tensorflow_model_server.toml").read_text(encoding="utf-8")
)
SETTINGS = {
    name: row.get("setting") or row["withdrawn"]
    for name, row in FLAGS.items()
    if row.keys() & {"setting", "withdrawn"}
}


def _refuse(context: click.Context, option: click.Parameter, value: str | None) -> None:
    name = option.opts[0]
    meaning = FLAGS[name.removeprefix("--")]
    if value is not None and value.lower() != meaning.get("neutral", ""):
        advice = f"use {meaning['instead']}" if "instead" in meaning else "leave it out"
        raise click.UsageError(f"{name} is not supported here; {advice}")


def _option(name: str, meaning: Mapping[str, Any]) -> click.Option:
    """A flag as tensorflow_model_server parses it: --name=value, and --name
    alone for true.
    """
    alone_is_true: dict[str, Any] = {"is_flag": False, "flag_value": "true"}
    if "setting" in meaning:
        (kind,) = (row.type for row in table() if row.name == meaning["setting"])
        text = f"setting {variable(meaning['setting'])}"
        more = alone_is_true if kind is bool else {}
        return click.Option([f"--{name}"], type=kind, help=text, **more)
    if "environment" in meaning:
        text = f"environment {', '.join(meaning['environment'])}"
        return click.Option([f"--{name}"], type=int, help=text)
    if "withdrawn" in meaning:
        return click.Option([f"--{name}"], hidden=True, **alone_is_true)
    more = {"hidden": True, "expose_value": False, "callback": _refuse}
    return click.Option([f"--{name}"], **alone_is_true, **more)


@click.command(name="model-server", params=list(map(_option, FLAGS, FLAGS.values())))
@click.option(
    "--version", is_flag=True, help="print the versions of dogsnap and TensorFlow, and exit"
)
def model_server(version: bool, **flags: Any) -> None:
    """Serve models by the flags of tensorflow_model_server, with their
    meanings.

    Its other flags are refused with what to do in their place. Settings without
    such a flag are taken from the environment.
    """
    if version:
        click.echo(
            f"dogsnap: {version_of('dogsnap')}\nTensorFlow Library: {version_of('tensorflow')}"
        )
        return
    given = {name: value for name, value in flags.items() if value is not None}
    _check(given)
    os.environ.update(threads_environment(given))
    settings = settings_for(given)
    with naming_flags(_names_of_flags()):
        try:
            run_server(**settings)
        except click.ClickException as error:
            # Final by click, which has no other way to change a sentence and keep its kind.
            error.message = in_flags_of_command(error.message)  # type: ignore[misc]
            raise


def _names_of_flags() -> dict[str, str]:
    """The flags of `dogsnap serve` as they are called here; others are set by
    their variables.
    """
    own = {setting: f"--{name}" for name, setting in SETTINGS.items()}
    settings = {row.name for row in table()} | own.keys()
    return {flag(setting): own.get(setting, variable(setting)) for setting in settings}


def _check(flags: dict[str, Any]) -> None:
    if not (flags.get("model_base_path") or flags.get("model_config_file")):
        raise click.UsageError(
            "expected --model_base_path=FOLDER with numeric folders of versions, or "
            "--model_config_file"
        )
    if flags.get("rest_api_port") == 0:
        raise click.UsageError(
            "--rest_api_port=0: HTTP cannot be closed, it has health and metrics; name another port"
        )
    if flags.get("batching_parameters_file") and not flags.get("enable_batching"):
        raise click.UsageError(
            "--batching_parameters_file is set without setting --enable_batching to true"
        )


def settings_for(flags: dict[str, Any]) -> dict[str, Any]:
    """The settings for these flags, with tensorflow_model_server's defaults:
    every interface, the latest version.
    """
    settings = {SETTINGS[name]: value for name, value in flags.items() if name in SETTINGS}
    if "model_config_file" in settings:
        settings.pop("model_name", None)
        settings.pop("model_base_path", None)
    else:
        settings.setdefault("model_name", "default")
    defaults = {
        "host": "0.0.0.0",
        "version_policy": "latest",
        # Where the breeds of the app would be.
        "models": Path(settings.get("model_base_path", ".")).parent,
    }
    for name, value in defaults.items():
        if variable(name) not in os.environ:
            settings[name] = value
    return settings


def threads_environment(flags: dict[str, Any]) -> dict[str, str]:
    """The environment variables for the flags about TensorFlow's threads; 0
    leaves them to TensorFlow.
    """
    environment = {}
    for name, value in flags.items():
        if value:
            environment.update(dict.fromkeys(FLAGS[name].get("environment", ()), str(value)))
    return environment
