"""`dogsnap deploy`: serves the versions on a running cluster."""

import importlib.util
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option
from dogsnap.ray.scale import Scale
from dogsnap.settings import (
    Decorated,
    Settings,
    click_type,
    flag,
    options,
    variable,
    warn_of_withdrawn,
)

SETTINGS = (
    "host", "port", "grpc_port", "run_threads", "queue_size", "deadline_ms", "drain_seconds",
    "max_tensor_body_mb", "max_photo_pixels",
)  # fmt: skip


def scale_options(command: Decorated) -> Decorated:
    """Decorate a command with the flags of `Scale`."""
    for row in reversed(fields(Scale)):
        command = option(
            flag(row.name), row.metadata["help"], click_type(row), default=row.default
        )(command)
    return command


@click.group()
def deploy() -> None:
    """Serve the versions on a cluster."""


@deploy.command("ray")
@option(
    "--address",
    "address of the Ray cluster; auto: the one that this machine belongs to",
    default="auto",
)
@option(
    "--models",
    "folder that all nodes can read, or a URL that each node copies from: "
    "file:///models, s3://bucket/models",
    default="models",
    envvar=variable("models"),
)
@option(
    "--model-config-file",
    "file with TensorFlow Serving's model_config_list: only the last folder of a base path is used",
    EXISTING_FILE,
    envvar=variable("model_config_file"),
)
@option(
    "--cache",
    "folder on each node for copied versions",
    PATH,
    default=Path("~/.cache/dogsnap/models"),
)
@options(*SETTINGS, "warm_up", "max_photos", "max_request_pixels")
@scale_options
def ray_command(
    address: str, models: str, model_config_file: Path | None, cache: Path, **flags: Any
) -> None:
    """Serve every version below --models on a Ray cluster, each with its own
    autoscaling, behind Ray's gRPC proxy.

    Run it again when versions have been added or removed: unchanged ones are
    left alone, and an old version is removed only when its replacement answers.
    It needs Ray on every node: make setup EXTRAS=ray. The proxies listen on
    every interface of their nodes without API keys: put the gateway, `dogsnap
    serve --engine`, in front of them.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if importlib.util.find_spec("ray") is None:
        raise click.ClickException("Ray is not installed: make setup EXTRAS=ray")
    from dogsnap.ray import deployment
    from dogsnap.serving.versions.model_configs import configs_in_file

    scale = Scale(**{row.name: flags.pop(row.name) for row in fields(Scale)})
    configs = configs_in_file(model_config_file) if model_config_file else []
    # Only the settings that a replica uses: models are given by --models, and access
    # control is the gateway's.
    environ = {name: value for name, value in os.environ.items() if name in map(variable, SETTINGS)}
    settings = Settings.from_environment(environ, **flags)
    warn_of_withdrawn(**flags)
    deployment.Rollout(settings, scale, models, cache, configs).run(address, click.echo)
