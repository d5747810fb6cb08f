"""`dogsnap serve`: checks the settings and starts the server.

It does not import TensorFlow: the worker does, after the fork.
"""

import dataclasses
import logging
import socket
import sqlite3
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from limits import parse_many
from limits.errors import ConfigurationError
from limits.storage import storage_from_string

from dogsnap import __version__, admin_token
from dogsnap.addresses import check_file_name, check_url, is_loopback
from dogsnap.allocator import share_arenas
from dogsnap.commands.helpers.local_models import refuse_missing_models
from dogsnap.files import check_database
from dogsnap.gateway.target import Target, addresses_of
from dogsnap.logs import prepare_logging, survive_full_disk
from dogsnap.model_urls import check_copies, check_source, is_url, without_secrets
from dogsnap.routing.store_opening import check_switch_log, name_store
from dogsnap.server import tracing
from dogsnap.server.gunicorn_worker import Server, replaced_process
from dogsnap.server.middleware import api_keys
from dogsnap.settings import Settings, flag, options, warn_of_withdrawn

log = logging.getLogger("dogsnap")


class ServeCommand(click.Command):
    """Flags of other servers get a hint at their counterparts, instead of a
    similar flag with another meaning.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "_" not in error.option_name:
                raise
            raise click.UsageError(
                f"No such option {error.option_name!r}: `dogsnap model-server` takes "
                "the flags of tensorflow_model_server; "
                "docs/migrating.md lists the counterparts of others, and `dogsnap "
                "serve --help` all flags",
                ctx,
            ) from None


@click.command(cls=ServeCommand)
@options()
def serve(**flags: Any) -> None:
    """Serve the models over HTTP and gRPC, and the app at /."""
    run_server(**flags)


def run_server(**flags: Any) -> None:
    """Check the settings, serve until stopped.

    Raises click.ClickException and DogsnapError for settings that cannot work.
    """
    settings = checked_settings(**flags)
    advice = "in a container with a read-only root mount one: --tmpfs /tmp"
    with refusing(f"no temporary folder can be written to; {advice}", OSError):
        tempfile.TemporaryFile().close()  # TensorFlow's import and gunicorn's worker write into it
    if not replaced_process():
        refuse_taken_ports(settings)
    share_arenas()
    survive_full_disk()
    prepare_logging(settings.log_format)
    warn_of_withdrawn(**flags)
    if settings.engine:
        log.info("dogsnap %s; the models run at %s", __version__, Target.parse(settings.engine))
    else:
        models = settings.model_config_file or settings.model_base_path or settings.models
        log.info("dogsnap %s; loading models from %s", __version__, without_secrets(str(models)))
    keeps_token = not settings.admin_token
    if keeps_token:
        settings = with_written_token(settings)
    Server(settings, keeps_token).run()


def with_written_token(settings: Settings) -> Settings:
    """The settings with a random token that commands of this user find; until there is
    a folder for it nobody can administer.
    """
    try:
        token = admin_token.write_token(settings.port)
        file = admin_token.find_file(settings.port)
        log.info("the token for administration is in %s; `dogsnap console` opens the console", file)
    except OSError as error:
        token = admin_token.random_token()
        log.warning("nobody can administer this server until its token can be written (%s)", error)
    return dataclasses.replace(settings, admin_token=token)


def checked_settings(**flags: Any) -> Settings:
    """The settings from flags, environment and settings file, checked.

    Raises click.ClickException and DogsnapError.
    """
    settings = Settings.from_environment(**flags)
    check_combinations(settings)
    check_secrets(settings)
    check_files(settings)
    check_access(settings)
    check_certificate(settings)
    for name in ("content_check", "otlp_endpoint"):
        if url := getattr(settings, name):
            check_url(flag(name), url, ("http", "https"), "expected http://host/path or https")
    if settings.engine:  # it need not be running yet, and a single name need not be known
        hosts = Target.parse(settings.engine).hosts
        own = [host for host, port in hosts if port == settings.grpc_port and is_loopback(host)]
        refuse(
            own and is_loopback(settings.host),
            f"--engine is this server itself, which listens for gRPC on port {settings.grpc_port}; "
            "choose another --grpc-port (DOGSNAP_GRPC_PORT), or 0 for no gRPC",
        )
        for host in hosts if len(hosts) > 1 else ():
            addresses_of(host)
    if not settings.model_config_file:
        name = "model_base_path" if settings.model_base_path else "models"
        if is_url(source := getattr(settings, name)):
            check_source(flag(name), source)
            check_copies(flag(name), source)
            return settings
    refuse_missing_models(settings)
    return settings


def refuse(wrong: object, sentence: str) -> None:
    """Raises click.ClickException if there is something `wrong`."""
    if wrong:
        raise click.ClickException(sentence)


@contextmanager
def refusing(sentence: str, *errors: type[Exception]) -> Iterator[None]:
    """Raises click.ClickException for these errors in the block; `{error}` in
    the sentence is the reason.
    """
    try:
        yield
    except errors as error:
        # Of the system, without the address, which Python adds on some systems; or what
        # the error says.
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
        raise click.ClickException(sentence.replace("{error}", reason)) from error


def check_combinations(settings: Settings) -> None:
    """Refuse a setting without what it needs."""
    refuse(
        settings.otlp_endpoint and not tracing.is_installed(),
        "--otlp-endpoint needs OpenTelemetry: install it with `make setup EXTRAS=otel`",
    )
    batching, keys = settings.enable_batching, settings.api_keys
    refuse(
        settings.batching_parameters_file and not batching,
        "--batching-parameters-file needs --enable-batching",
    )
    refuse(
        settings.engine and batching,
        "--enable-batching is for the server that runs the models: start the engine with it",
    )
    refuse(
        settings.rate_limit_key and not keys,
        "--rate-limit-key counts requests by their key; it needs --api-keys",
    )
    refuse(
        settings.open_app and not keys,
        "--open-app excepts the app from --api-keys, which is not given",
    )
    refuse(
        bool(settings.tls_cert) != bool(settings.tls_key),
        "--tls-cert and --tls-key need each other: a certificate is used with its private key",
    )


def check_access(settings: Settings) -> None:
    """Refuse a file without keys, and limits that cannot be counted."""
    keys = settings.api_keys
    with refusing(f"--api-keys {keys} cannot be read: {{error}}", OSError):
        none = keys and not api_keys.read(Path(keys))
    refuse(none, f"--api-keys {keys} holds no key; make one with `dogsnap keys add NAME`")
    for name in ("rate_limit_key", "rate_limit_address", "open_app"):
        rate = getattr(settings, name)
        with refusing(f"{flag(name)} is {rate!r}; expected e.g. 100/minute;5/second", ValueError):
            limits = parse_many(rate or "1/second")
            if any(limit.amount < 1 for limit in limits):
                raise ValueError("a limit of 0")
    storage, expected = settings.rate_limit_storage, "expected memory:// or redis://host:port"
    if storage.startswith(("redis://", "rediss://")):
        from dogsnap.routing.redis_store import check_redis

        check_redis("--rate-limit-storage", storage, expected)
    with refusing(
        f"--rate-limit-storage is no place to count in; {expected}", ConfigurationError, ValueError
    ):
        storage_from_string(storage)  # does not connect yet


def check_certificate(settings: Settings) -> None:
    files = f"{settings.tls_cert} and {settings.tls_key}"
    expected = "expected a certificate chain and its private key without a password, both as PEM"
    with refusing(f"{files} cannot be used: {{error}}; {expected}", OSError, ValueError):
        if settings.tls_cert:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                settings.tls_cert, settings.tls_key, password=""
            )


def refuse_taken_ports(settings: Settings) -> None:
    """Check early: gRPC would share a port with another gRPC server, and
    gunicorn retries for 5 s.
    """
    host = settings.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    expected = (
        "expected an address or name of this machine alone, as 127.0.0.1 or ::1; choose "
        "another --host (DOGSNAP_HOST), 0.0.0.0 for every interface"
    )
    with refusing(f"cannot listen on {host}: {{error}}; {expected}", OSError, UnicodeError):
        socket.create_server((host, 0), family=family).close()
    ports = [("HTTP", settings.port, "choose another --port (DOGSNAP_PORT)")]
    if settings.grpc_port:
        hint = "choose another --grpc-port (DOGSNAP_GRPC_PORT), or 0 for no gRPC"
        ports.append(("gRPC", settings.grpc_port, hint))
    for protocol, port, hint in ports:
        wrong = f"cannot listen for {protocol} on {host} port {port}"
        refuse(not 0 < port < 65536, f"{wrong}: expected a port from 1 to 65535; {hint}")
        with refusing(f"{wrong}: {{error}}; {hint}", OSError):
            socket.create_server((host, port), family=family).close()
    refuse(
        settings.port == settings.grpc_port,
        f"HTTP and gRPC cannot both listen on port {settings.port}; {ports[-1][2]}",
    )


def check_secrets(settings: Settings) -> None:
    """Refuse a short token or secret, since attempts to guess it are not limited."""
    for name in ("admin_token", "feedback_secret"):
        length = len(getattr(settings, name))
        refuse(
            0 < length < admin_token.LEAST_CHARACTERS,
            f"{flag(name)} has {length} characters and can be guessed; expected at "
            f"least {admin_token.LEAST_CHARACTERS}, "
            "e.g. what `openssl rand -hex 16` prints",
        )


def check_files(settings: Settings) -> None:
    """A log that is found missing after a restart is found too late."""
    with refusing(
        "there is no folder for switches: {error}; set --switch-log to a file, redis://host:6379, "
        "or off",
        OSError,
    ):
        switch_log = name_store(settings)
    with refusing(
        f"switches cannot be kept in {switch_log}: {{error}}; choose another --switch-log",
        OSError,
        sqlite3.Error,
    ):
        check_switch_log(switch_log)
    file = settings.feedback
    refuse(
        file and Path(file).resolve() == Path(switch_log).resolve(),
        "--feedback and --switch-log name one file; expected two",
    )
    with refusing(
        f"feedback cannot be kept in {file}: {{error}}; choose another --feedback",
        OSError,
        sqlite3.Error,
    ):
        if file:
            check_file_name("--feedback", file, "expected a file, or none for no feedback")
            check_database(Path(file))
