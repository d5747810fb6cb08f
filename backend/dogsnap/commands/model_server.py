"""`dogsnap model-server`: the command line of TensorFlow Serving's
tensorflow_model_server.
"""

import os
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.serve import run_server
from dogsnap.flag_names import in_flags_of_command, naming_flags
from dogsnap.settings import flag, table, variable

# Flag -> setting with the same meaning.
SAME = {
    "port": "grpc_port",
    "rest_api_port": "port",
    "rest_api_timeout_in_ms": "deadline_ms",
    "rest_api_enable_cors_support": "enable_cors",
    "model_name": "model_name",
    "model_base_path": "model_base_path",
    "model_config_file": "model_config_file",
    "file_system_poll_wait_seconds": "poll_seconds",
    "enable_batching": "enable_batching",
    "batching_parameters_file": "batching_parameters_file",
}
# Flag -> environment variables by which TensorFlow takes the same number.
THREADS = {
    "tensorflow_intra_op_parallelism": ("TF_NUM_INTRAOP_THREADS",),
    "tensorflow_inter_op_parallelism": ("TF_NUM_INTEROP_THREADS",),
    "tensorflow_session_parallelism": ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
}
THREAD_SETTINGS = "DOGSNAP_RUN_THREADS and DOGSNAP_QUEUE_SIZE, from which the threads follow"
TLS_SETTINGS = (
    "DOGSNAP_TLS_CERT and DOGSNAP_TLS_KEY, each with a file of its own; HTTP then is HTTPS as well"
)
RETRIES = "the default: a failed load is tried again every minute until it succeeds"
PARALLELISM = "--tensorflow_intra_op_parallelism and --tensorflow_inter_op_parallelism"
# Flag -> the value that changes nothing here, and what to use instead of another one;
# "" for nothing.
REFUSED = {
    "allow_version_labels_for_unavailable_models": ("true", ""),
    "enable_grpc_healthcheck_service": ("true", ""),
    "enable_model_warmup": ("true", ""),
    "model_config_file_poll_wait_seconds": (
        "",
        "--file_system_poll_wait_seconds, at which the file is read, too",
    ),
    "grpc_socket_path": ("", "--port, and DOGSNAP_HOST=127.0.0.1 for this machine alone"),
    "rest_api_num_threads": ("", THREAD_SETTINGS),
    "grpc_max_threads": ("", THREAD_SETTINGS),
    "grpc_channel_arguments": ("", ""),
    "enable_per_model_batching_parameters": (
        "false",
        "--batching_parameters_file, which is for all models",
    ),
    "num_load_threads": ("0", ""),
    "num_unload_threads": ("0", ""),
    "load_retry_interval_micros": ("", RETRIES),
    "max_num_load_retries": ("", RETRIES),
    "flush_filesystem_caches": ("", ""),
    "tensorflow_session_config_file": ("", PARALLELISM),
    "use_alts_credentials": ("false", TLS_SETTINGS),
    "ssl_config_file": ("", TLS_SETTINGS),
    "platform_config_file": ("", ""),
    "per_process_gpu_memory_fraction": ("0", "TF_FORCE_GPU_ALLOW_GROWTH=true in the environment"),
    "saved_model_tags": ("serve", "an export with the tag serve"),
    "num_request_iterations_for_warmup": (
        "0",
        "a warm-up file with the request written several times",
    ),
    "monitoring_config_file": (
        "",
        "/monitoring/prometheus/metrics of the HTTP port, which is always there",
    ),
    "remove_unused_fields_from_bundle_metagraph": ("", ""),
    "prefer_tflite_model": ("false", "a SavedModel"),
    "num_tflite_pools": ("", ""),
    "num_tflite_interpreters_per_pool": ("", ""),
    "enable_signature_method_name_check": ("false", ""),
    "xla_cpu_compilation_enabled": ("false", "TF_XLA_FLAGS=--tf_xla_auto_jit=2 in the environment"),
    "enable_profiler": ("", "DOGSNAP_OTLP_ENDPOINT for traces"),
    "thread_pool_factory_config_file": ("", PARALLELISM),
    "mixed_precision": ("", "a version in bfloat16, made by `dogsnap merge --fast`"),
    "skip_initialize_tpu": ("", ""),
}


def _refuse(context: click.Context, option: click.Parameter, value: str | None) -> None:
    flag = option.opts[0]
    neutral, instead = REFUSED[flag.removeprefix("--")]
    if value is not None and value.lower() != neutral:
        raise click.UsageError(
            f"{flag} is not supported here; {f'use {instead}' if instead else 'leave it out'}"
        )


def _options() -> list[click.Option]:
    """Flags as tensorflow_model_server parses them: --name=value, and --name
    alone for true.
    """
    alone_is_true: dict[str, Any] = {"is_flag": False, "flag_value": "true"}
    kinds = {row.name: row.type for row in table()}
    options = []
    for name, setting in SAME.items():
        kind = kinds[setting]
        more = alone_is_true if kind is bool else {}
        text = f"setting {variable(setting)}"
        options.append(click.Option([f"--{name}"], type=kind, help=text, **more))
    for name, variables in THREADS.items():
        text = f"environment {', '.join(variables)}"
        options.append(click.Option([f"--{name}"], type=int, help=text))
    hidden: dict[str, Any] = {**alone_is_true, "hidden": True}
    for name in REFUSED:
        more = {"expose_value": False, "callback": _refuse}
        options.append(click.Option([f"--{name}"], **hidden, **more))
    return options


@click.command(name="model-server", params=_options())
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
    own = {setting: f"--{name}" for name, setting in SAME.items()}
    return {flag(row.name): own.get(row.name, variable(row.name)) for row in table()}


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
    settings = {SAME[name]: value for name, value in flags.items() if name in SAME}
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
    for name, variables in THREADS.items():
        if flags.get(name):
            environment.update(dict.fromkeys(variables, str(flags[name])))
    return environment
