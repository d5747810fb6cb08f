"""The table of settings: name, default, type and help.

Flags, environment variables and documentation come from it.
"""

import dataclasses
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])  # a command of click

log = logging.getLogger("dogsnap.settings")

PREFIX = "DOGSNAP_"
# Read by tests and client commands; listed so that `dogsnap serve` does not refuse them as unknown.
OTHER_VARIABLES = {
    "DOGSNAP_TEST_DATA": "folder with stanford_dogs/ full_frame_dogs/ not_dogs/, for the tests",
    "DOGSNAP_KEY": "API key that `dogsnap predict` sends to the server at --url",
}
# What Vertex AI tells a container, by the settings that mean the same.
VERTEX_VARIABLES = {
    "port": "AIP_HTTP_PORT",
    "health_route": "AIP_HEALTH_ROUTE",
    "predict_route": "AIP_PREDICT_ROUTE",
    "models": "AIP_STORAGE_URI",
}
# What Kubernetes sets in every pod for a service whose name begins with dogsnap, and
# Docker for a link: no settings.
SERVICE_LINK = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST=.*|SERVICE_PORT(_\w+)?=\d+|PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*"
    r"|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)"
)
# A line of a settings file, as systemd and Docker Compose read it: the value plain, up to a
# comment behind a space, or in quotes.
LINE = re.compile(
    r"""(?:export\s+)?(?P<name>\w+)\s*=\s*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^"'\s].*?)?)(?:\s+\#.*)?"""
)
ROUTE = re.compile(r"(/[^\s<>?#]*)?")
# What no shell has filled in, as ${TOKEN}, Kubernetes' $(TOKEN), or $HOME as a part of a path or URL.
REFERENCE = re.compile(r"(?<!\\)\$[{(]|(?:\A|(?<=[/:@,]))\$[A-Za-z_]\w*(?=\Z|[/:@,])")
MOST = 2**32  # of any number, so that Python's clocks can wait for it (threading.TIMEOUT_MAX)
MEBIBYTE = 2**20
MAX_PHOTO_PIXELS = 50_000_000
# Settings that this release ignores, and what holds in their place; the next one does not know them.
WITHDRAWN = {
    "retry_seconds": "a version that failed to load is tried again after 60 seconds",
    "warm_up": "warm-up requests always run",
    "grpc_deadline_ms": "--deadline-ms is for gRPC, too",
    "max_answer_mb": "an answer may have twice --max-tensor-body-mb",
    "receive_seconds": "a request must have arrived in 60 seconds",
    "max_photos": "a request may have 32 photos",
    "max_request_pixels": "photos of a request may have twice --max-photo-pixels together",
    "max_json_depth": "JSON may have 100 levels",
    "max_json_values": "the JSON of a request may have 12 million values",
    "feedback_ask": "the app asks about every answer",
    "grpc_trusted_proxies": "--trusted-proxies is for gRPC, too",
}
MODELS = Path("models")


def setting(
    default: Any, text: str, least: float = 0, secret: bool = False, choices: Sequence[str] = ()
) -> Any:
    """A row of the table; name and type are those of the field.

    Numbers must be at least `least`.

    Secrets are left out of the settings' repr, so that they are not logged.
    """
    return dataclasses.field(
        default=default,
        repr=not secret,
        metadata={"help": text, "least": least, "choices": choices},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, each with a flag (--max-body-mb) and an environment
    variable (DOGSNAP_MAX_BODY_MB).
    """

    host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 for every interface")
    port: int = setting(8501, "port for HTTP")
    grpc_port: int = setting(8500, "port for gRPC; 0 starts no gRPC server")
    models: str = setting(
        str(MODELS),
        "folder with one folder per model, each with one numeric folder per version; or "
        "the folder of one model; or a URL of either, as `s3://bucket/models`",
    )
    model_config_file: str = setting(
        "",
        "file with TensorFlow Serving's model_config_list as text, or Simple TensorFlow "
        "Serving's as JSON; replaces --models",
    )
    model_base_path: str = setting(
        "",
        "folder, or URL, with the versions of one model, which is served alone; replaces --models",
    )
    model_name: str = setting(
        "", "name of the model at --model-base-path; without it, the folder's name"
    )
    version_policy: str = setting(
        "all",
        "versions served of a model whose configuration has no model_version_policy: "
        "`all` or `latest`",
        choices=("all", "latest"),
    )
    engine: str = setting(
        "",
        "forward to servers with TensorFlow Serving's gRPC, "
        "`grpc://host:8500[,host:8500]`, or `ray://host:9000`, and "
        "run no model here",
        secret=True,
    )
    default_model: str = setting("inception_v3", "model for requests that name none")
    poll_seconds: float = setting(
        1.0,
        "seconds between two scans of the model folders; 0 scans only at the start and "
        "for what is to be loaded",
    )
    run_threads: int = setting(
        8, "run threads: requests that are computed at the same time", least=1
    )
    queue_size: int = setting(64, "requests that may wait for a run thread; further ones get 503")
    enable_batching: bool = setting(
        False,
        "waiting requests for the same version and signature share a run; see "
        "--batching-parameters-file",
    )
    batching_parameters_file: str = setting(
        "", "file with TensorFlow Serving's BatchingParameters as text; needs --enable-batching"
    )
    deadline_ms: int = setting(
        30_000,
        "milliseconds after which an unanswered request gets 504; a gRPC call ends at its "
        "client's deadline, or at this",
        least=1,
    )
    max_body_mb: int = setting(16, "largest request body with a photo, in MiB", least=1)
    max_tensor_body_mb: int = setting(
        100,
        "largest request body with tensors (/v1/, /v2/, POST / and gRPC), also after "
        "decompression, in MiB; an answer with tensors may have twice as much, also as JSON",
        least=1,
    )
    max_held_mb: int = setting(
        1024,
        "memory for the bodies of all HTTP requests and answers together, in MiB; "
        "further ones get 503. gRPC has as "
        "much again for its messages; further ones get RESOURCE_EXHAUSTED",
        least=1,
    )
    max_photo_pixels: int = setting(
        MAX_PHOTO_PIXELS,
        "largest photo, in pixels; those of one request may have twice as many together",
        least=1,
    )
    enable_cors: bool = setting(False, "let web pages of other origins call this server (CORS)")
    access_log: bool = setting(False, "log one line per request")
    admin_token: str = setting(
        "",
        "bearer token for administration and the metrics. Without one, a random one in "
        "a file that only the server's user can read. Better set in the environment",
        secret=True,
    )
    switch_log: str = setting(
        "",
        "where switches are kept, and shared by servers: a file (SQLite), "
        "`redis://host:6379`, or `off`; otherwise a file "
        "in $XDG_STATE_HOME/dogsnap, one for each folder of models",
        secret=True,
    )
    feedback: str = setting(
        "", "file (SQLite) for users' feedback on answers; without one no feedback is accepted"
    )
    feedback_days: int = setting(90, "days for which feedback is kept", least=1)
    feedback_secret: str = setting(
        "",
        "secret that signs feedback ids; without one, a random one in a file beside "
        "--feedback. Better set in the environment",
        secret=True,
    )
    drain_seconds: int = setting(30, "seconds that running requests have to finish after SIGTERM")
    settings_file: str = setting(
        "",
        "file with lines DOGSNAP_NAME=value; flags and environment take precedence; "
        "SIGUSR2 applies it",
    )
    api_keys: str = setting(
        "", "file with the API keys, see `dogsnap keys`; requests without one of them get 401"
    )
    open_app: str = setting(
        "",
        "rate limit per address for the requests of the app, which then need no API "
        "key, e.g. `30/minute`",
    )
    rate_limit_key: str = setting(
        "", "rate limit per API key, e.g. `100/minute`; further requests get 429"
    )
    rate_limit_address: str = setting(
        "", "rate limit per client address, e.g. `300/minute;10/second`"
    )
    trusted_proxies: int = setting(
        0,
        "number of proxies in front of this server; with 1 the client's address is the "
        "last one in X-Forwarded-For, by gRPC as well",
    )
    rate_limit_storage: str = setting(
        "memory://",
        "where the rate limits are counted; `redis://host:6379` shares them between servers",
        secret=True,
    )
    content_check: str = setting(
        "",
        "URL of a service that decides whether a photo sent to /api/classify may be "
        "classified, as WeChat's img_sec_check",
        secret=True,
    )
    tls_cert: str = setting(
        "", "file with the certificate chain (PEM) for HTTPS and gRPC; needs --tls-key"
    )
    tls_key: str = setting("", "file with the private key (PEM) of --tls-cert")
    health_route: str = setting("", "a further path for readiness, such as AIP_HEALTH_ROUTE names")
    predict_route: str = setting(
        "", "a further path for /invocations, such as AIP_PREDICT_ROUTE names"
    )
    log_format: str = setting(
        "text",
        "`text`: one line per event; `json`: one JSON object per event",
        choices=("text", "json"),
    )
    otlp_endpoint: str = setting(
        "",
        "where OpenTelemetry traces go, e.g. `http://localhost:4318/v1/traces`; needs "
        "the extra `otel`",
    )

    @property
    def max_answer_mb(self) -> int:
        """The largest answer with tensors, in MiB: of the tensors, and of their
        JSON where that is the answer.
        """
        return 2 * self.max_tensor_body_mb

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ, **flags: Any) -> "Settings":
        """Flags take precedence over the environment, and it over the settings
        file; a flag that is None was not given.

        Raises click.UsageError on an unknown DOGSNAP_ variable, which may be
        misspelt, and on a value that cannot be.
        """
        given = _read_variables(environ, flags.get("settings_file"))
        known = {variable(row.name) for row in table()} | set(OTHER_VARIABLES)
        unknown = sorted(set(given) - known - set(map(variable, WITHDRAWN)))
        if unknown:
            raise click.UsageError(
                f"unknown setting in the environment: {', '.join(unknown)}; known: "
                f"{', '.join(sorted(known))}"
            )
        values = {}
        for row in table():
            stated: Any = flags.get(row.name)
            if stated is None:  # an empty one, as Compose's ${MODEL:-}, leaves the default
                stated = given.get(variable(row.name)) or None
            elif isinstance(stated, str):  # as `args` of Kubernetes or Docker, which no shell reads
                _refuse_reference(flag(row.name), stated)
            if stated is not None:
                values[row.name] = _parse(row, stated)
        for name in ("health_route", "predict_route"):
            if not ROUTE.fullmatch(values.get(name, "")):
                raise click.UsageError(
                    f"{flag(name)} is {values[name]!r:.100}; expected a path that begins with /"
                )
        return cls(**values)


def warn_of_withdrawn(environ: Mapping[str, str] = os.environ, **flags: Any) -> None:
    """Log what is given of settings that are withdrawn."""
    given = _read_variables(environ, flags.get("settings_file"))
    found = []
    for name, instead in WITHDRAWN.items():
        if flags.get(name) is not None or variable(name) in given:
            found.append(f"{flag(name)} ({variable(name)}): {instead}")
    if found:
        log.warning("withdrawn, and ignored: %s", "; ".join(found))


def _read_variables(environ: Mapping[str, str], settings_file: str | None) -> dict[str, str]:
    """The variables of the environment, and what the settings file says beside them."""
    given = {}
    for name, value in environ.items():
        if name.startswith(PREFIX) and not SERVICE_LINK.fullmatch(f"{name}={value}"):
            given[name] = _without_line_end(name, value)
    for name, theirs in VERTEX_VARIABLES.items():
        if environ.get(theirs):
            given.setdefault(variable(name), _without_line_end(theirs, environ[theirs]))
    file = settings_file or given.get(variable("settings_file"))
    return {**_read_settings_file(Path(file)), **given} if file else given


def _without_line_end(name: str, value: str) -> str:
    """A variable's value without space around it, as the line ends of Windows leave.

    Raises click.UsageError for one in quotes, which `docker run --env-file` passes on.
    """
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        raise click.UsageError(
            f"the value of {name} is in quotes, which are part of it in the environment; "
            "leave them out (they may stand in a --settings-file)"
        )
    _refuse_reference(name, value)
    return value


def _refuse_reference(where: str, value: str) -> None:
    """Raises click.UsageError, without the value."""
    if REFERENCE.search(value):
        raise click.UsageError(
            f"the value of {where} refers to a variable, which is not filled in here; write its "
            "value (in a --settings-file, in single quotes, $ is a sign as any other)"
        )


def _read_settings_file(file: Path) -> dict[str, str]:
    """The lines NAME=value of a file, without empty lines and comments.

    Raises click.UsageError, which shows no value: it may be a secret.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"the settings file cannot be read: {error}") from None
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.strip().startswith(("#", ";")):
            continue
        found = LINE.fullmatch(line.strip())
        is_several = found and f" {PREFIX}" in (found["plain"] or "")
        if not found or is_several or not found["name"].startswith(PREFIX):
            name = re.sub(r"[^\w\s].*", "", line).strip()
            raise click.UsageError(
                f"{file}, line {number}: expected lines of the form {PREFIX}NAME=value, received "
                f"{name!r} and something else; quotes stand around a whole value"
            )
        _refuse_reference(f"{found['name']} in {file}", found["plain"] or found["double"] or "")
        value = found["single"] or found["plain"] or ""
        if found["double"]:
            value = re.sub(r'\\(["\\$`])', r"\1", found["double"])
        values[found["name"]] = value
    return values


def table() -> tuple[dataclasses.Field[Any], ...]:
    """The rows: each has `.name`, `.default`, `.type` and `.metadata["help"]`."""
    return dataclasses.fields(Settings)


def variable(name: str) -> str:
    """The environment variable of a setting: max_body_mb -> DOGSNAP_MAX_BODY_MB."""
    return PREFIX + name.upper()


def flag(name: str) -> str:
    """The flag of a setting: max_body_mb -> --max-body-mb."""
    return "--" + name.replace("_", "-")


def _parse(row: dataclasses.Field[Any], value: Any) -> Any:
    """Convert a text to the setting's type; a value of that type passes.

    Raises click.BadParameter naming the setting.
    """
    try:
        if value == "" and row.default:  # as --models "$MODELS" without that variable
            raise click.BadParameter(f"it is empty; leave it out for the default, {row.default}")
        found = click_type(row).convert(value, param=None, ctx=None)
        if isinstance(found, int | float) and not found <= MOST:
            raise click.BadParameter(f"{value} is out of range; expected at most {MOST}")
        return found
    except click.BadParameter as error:
        error.param_hint = f"{flag(row.name)} ({variable(row.name)})"
        raise


def click_type(row: dataclasses.Field[Any]) -> click.ParamType[Any, Any]:
    """What click converts and checks a row's value with."""
    if row.type is int:
        return click.IntRange(min=row.metadata["least"])
    if row.type is float:
        return click.FloatRange(min=row.metadata["least"])
    if row.metadata["choices"]:
        return click.Choice(row.metadata["choices"])
    return click.BOOL if row.type is bool else click.STRING


def options(*names: str) -> Callable[[Decorated], Decorated]:
    """Decorate a click command with the flags of these settings (of all,
    without names).

    The command receives None for flags that were not given;
    `Settings.from_environment(**flags)` fills them in.
    """
    rows = [row for row in table() if not names or row.name in names]
    withdrawn = [name for name in WITHDRAWN if not names or name in names]

    def decorate(command: Decorated) -> Decorated:
        for row in reversed(rows):
            name = flag(row.name)
            if row.type is bool:
                name = f"{name}/--no-{name.removeprefix('--')}"
            shown = f"{row.metadata['help']}  [{variable(row.name)}, default: {row.default}]"
            command = click.option(name, type=click_type(row), default=None, help=shown)(command)
        for name in withdrawn:
            more = f"{flag(name)}/{flag(f'no_{name}')}" if name == "warm_up" else flag(name)
            command = click.option(more, default=None, hidden=True)(command)
        return command

    return decorate
