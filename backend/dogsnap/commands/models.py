"""`dogsnap models`: lists and switches the versions of a running server."""

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

import click

from dogsnap.commands.helpers.admin_client import Remote, server_options
from dogsnap.commands.helpers.answer_text import escape, print_answer
from dogsnap.commands.helpers.arguments import option
from dogsnap.errors import InvalidArgument
from dogsnap.routing.state_document import read_state

POLL_SECONDS = 0.3
UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# What a load and an unload wait for, and what is said of the version then, and otherwise.
STATES = {
    "load": ("AVAILABLE", "is available", "is still loading"),
    "unload": ("END", "is unloaded", "takes no new requests and still answers the last ones"),
}

json_option = option("--json", "print JSON", is_flag=True, name="as_json")
plan_option = option("--dry-run", "only say what would change", is_flag=True)
# Where versions are compared with those that they replace.
force_option = option("--force", "also if clients would feel the differences", is_flag=True)
guard_option = option(
    "--guard", "undo it if that version fails more, or takes longer", is_flag=True
)


def switch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The running server, with --model, and --dry-run."""
    model_option = option("--model", "otherwise the server's default model", default="")
    return model_option(server_options(plan_option(command)))


def move_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same with --force and --guard."""
    return switch_options(guard_option(force_option(command)))


def parse_duration(text: str) -> float:
    """Seconds, from a number with its unit: 30s, 10m, 2h or 1d."""
    try:
        return float(text[:-1]) * UNIT_SECONDS[text[-1:]]
    except (ValueError, KeyError):
        raise click.BadParameter(
            f"{text!r} is no duration; expected a number and a unit: 30s, 10m, 2h, 1d"
        ) from None


def parse_steps(text: str) -> list[float]:
    """Percentages, e.g. 5,25,50,100."""
    try:
        steps = [float(step) for step in text.split(",")]
        json.dumps(steps, allow_nan=False)
        return steps
    except ValueError:
        raise click.BadParameter(
            f"{text!r} are no steps; expected percentages such as 5,25,50,100"
        ) from None


def parse_time(text: str) -> str:
    """A time in ISO 8601 with its zone; without one it is of this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no time; expected one such as 2026-12-24T03:00"
        ) from None


@click.group()
def models() -> None:
    """See and switch the versions of a running server."""


@models.command("list")
@server_options
@json_option
def list_models(server: Remote, as_json: bool) -> None:
    """List the versions with state, requests and latencies."""
    print_answer("list.txt", server.get("models"), as_json)


@models.command()
@click.argument("model", default="")
@server_options
def show(server: Remote) -> None:
    """Show one model in detail."""
    print_answer("show.txt", {"model": server.describe_model()})


@models.command()
@click.argument("version", type=int)
@option("--wait", "seconds to wait until it is available", default=300.0)
@switch_options
def load(server: Remote, version: int, wait: float, **flags: bool) -> None:
    """Load VERSION and keep it loaded.

    This also works for a version that was unloaded, that failed to load, that
    the version policy excludes, or whose folder was exported again: the one
    before answers until it is loaded.
    """
    _load(server, version, "load", wait, **flags)


@models.command()
@click.argument("version", type=int)
@option("--wait", "seconds to wait until its last request is done", default=60.0)
@switch_options
def unload(server: Remote, version: int, wait: float, **flags: bool) -> None:
    """Unload VERSION and keep it unloaded.

    It is unloaded after its last request. A version in use by a label, split,
    shadow or default is not unloaded.
    """
    _load(server, version, "unload", wait, **flags)


@models.group()
def label() -> None:
    """Set, move and remove labels."""


@label.command("set")
@click.argument("name")
@click.argument("version", type=int)
@move_options
def set_label(server: Remote, name: str, version: int, **flags: bool) -> None:
    """Point the label NAME to VERSION; a new label is created.

    If the version is not available yet, the label waits for it.
    """
    _report(server.switch("labels", name, version=version, **flags), name)


@label.command()
@click.argument("name")
@click.argument("version", type=int)
@option(
    "--from", "fail unless the label points to this version now", int, name="expected", default=None
)
@move_options
def move(server: Remote, name: str, version: int, expected: int | None, **flags: bool) -> None:
    """Move the existing label NAME to VERSION.

    Fails if someone else has moved it meanwhile.
    """
    if expected is None:
        found = server.describe_model()
        labels = {**found["labels"], **found["pending_labels"]}
        if name not in labels:
            known = ", ".join(sorted(labels)) or "none"
            raise click.ClickException(
                f"{server.model} has no label {name}; its labels: {known}; `label set` "
                "makes a new one"
            )
        expected = labels[name]
    fields = {"version": version, "from": expected, **flags}
    _report(server.switch("labels", name, **fields), name)


@label.command()
@click.argument("name")
@switch_options
def remove(server: Remote, name: str, **flags: bool) -> None:
    """Remove the label NAME.

    Requests for this label fail from then on.
    """
    _report(server.switch("labels", name, version=None, **flags))


@models.command()
@click.argument("version")
@move_options
def default(server: Remote, version: str, **flags: bool) -> None:
    """Choose the default version: VERSION or "latest", the largest that is
    available now.

    A version that comes later takes over only if it is chosen, or if the
    version policy is "latest".
    """
    _report(server.switch("default", version=_number_or("latest", version), **flags))


@models.command()
@option("--label", "the label to split; otherwise the default", name="name", default="")
@option("--to", "version that gets the share", int, name="version", default=None)
@option("--percent", "share in percent; 0 ends the split", float, required=True)
@move_options
def split(server: Remote, name: str, version: int | None, percent: float, **flags: bool) -> None:
    """Send a share of the requests to another version.

    A client stays on one side: it is recognised by its header X-Request-Key, or
    else by its address.
    """
    if percent and version is None:
        raise click.UsageError(
            "expected --to with the version that gets the share; or --percent 0 to end the split"
        )
    _report(server.switch("split", label=name, version=version, percent=percent, **flags))


@models.command()
@click.argument("label", default="")
@click.argument("version", type=int, required=False)
@option("--steps", "shares in percent, rising; the last is 100", parse_steps, metavar="STEPS")
@option(
    "--every",
    "how long each step lasts at least",
    parse_duration,
    default="10m",
    metavar="DURATION",
)
@option("--requests", "of the new version, that each step needs at least", int, default=None)
@option("--at", "when the first step begins; otherwise now", parse_time, metavar="TIME")
@click.option("--pause", "steer", flag_value="pause", help="stay at the step that it is at")
@click.option("--resume", "steer", flag_value="resume", help="go on; the step begins afresh")
@click.option("--end", "steer", flag_value="end", help="go back to the version before")
@switch_options
@force_option
def rollout(
    server: Remote, label: str, version: int | None, steer: str | None, **plan: Any
) -> None:
    """Let VERSION take over the requests for LABEL by steps, while its guard is
    content.

    Without LABEL those that name neither version nor label. A step waits for
    enough requests to judge; if the version is worse, the guard ends the
    rollout. The last step moves the label.
    """
    if steer is not None:
        if version is not None or plan["steps"] is not None:
            raise click.UsageError(
                f"expected --{steer} with a label at most: the rollout has its plan"
            )
        _report(server.switch("rollout", steer, label=label, dry_run=plan["dry_run"]))
        return
    if version is None and label.isdecimal():
        label, version = "", int(label)
    if version is None or plan["steps"] is None:
        raise click.UsageError(
            "expected a version and --steps, such as `rollout stable 2 --steps 5,25,50,100`; or "
            "--pause, --resume or --end for one that runs"
        )
    given = {name: value for name, value in plan.items() if value is not None}
    _report(server.switch("rollout", label=label, version=version, **given))


@models.command()
@click.argument("version")
@switch_options
def shadow(server: Remote, version: str, **flags: bool) -> None:
    """Send copies of the requests to VERSION, which does not answer; "off" ends
    it.

    It is used while the server is not busy; how often it agrees with the
    answers is counted.
    """
    _report(server.switch("shadow", version=_number_or("off", version), **flags))


@models.command()
@click.argument("model", default="")
@server_options
@json_option
def verdict(server: Remote, as_json: bool) -> None:
    """Which version of MODEL is better, by what people said, and how often its
    shadow agrees with it.
    """
    print_answer("verdict.txt", server.get("verdict", model=server.named), as_json)


@models.command()
@server_options
def feedback(server: Remote) -> None:
    """Print the table of feedback as CSV."""
    click.echo(server.text("feedback.csv"), nl=False)


@models.command()
@option("--model", "only of this model", default="")
@server_options
@json_option
def log(server: Remote, as_json: bool) -> None:
    """List the last switches: time, author, old and new value."""
    print_answer("log.txt", server.get("switches", model=server.named), as_json)


@models.command()
@server_options
def export(server: Remote) -> None:
    """Print what is chosen for all models as YAML, which `apply` takes."""
    import yaml

    click.echo(yaml.safe_dump(server.get("state"), sort_keys=False, allow_unicode=True), nl=False)


@models.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@server_options
@plan_option
@force_option
def apply(server: Remote, file: TextIO, **flags: bool) -> None:
    """Bring the models of FILE, as `export` writes it, to what it says, by one switch.

    "-" reads from standard input. What a model's entry does not name stays as it is.
    """
    import yaml

    try:
        state = yaml.safe_load(file)
        read_state(state)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise click.ClickException(f"{file.name} is no YAML: {problem}") from error
    except InvalidArgument as error:
        raise click.ClickException(f"{file.name}: {error.message}") from error
    _report(server.post("apply", state=state, **flags))


@models.command()
@click.argument("number", type=int, required=False)
@option("--model", "only of this model", default="")
@server_options
@plan_option
def undo(server: Remote, number: int | None, **flags: bool) -> None:
    """Undo the last switch, or switch NUMBER of the log."""
    _report(server.post("undo", id=number, model=server.named, **flags))


def _number_or(word: str, text: str) -> int | None:
    """None for the word."""
    try:
        return None if text == word else int(text)
    except ValueError:
        raise click.UsageError(f'version is "{text}"; expected a number, or "{word}"') from None


def _report(answer: dict[str, Any], label: str = "") -> None:
    """Say what a switch of a label, or of something else, has changed, or would."""
    print_answer("switch.txt", answer, label=label)


def _load(server: Remote, version: int, step: str, seconds: float, **flags: bool) -> None:
    """Load or unload, and say whether that was done within so many seconds."""
    answer = server.switch("versions", version, step, **flags)
    if "would" in answer:
        _report(answer)
        return
    state, in_time, otherwise = STATES[step]
    end = time.monotonic() + seconds
    while not (is_done := _is_in_state(server, version, state)) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    what = in_time if is_done else otherwise
    click.echo(escape(f"version {version} of {server.model} {what}"))


def _is_in_state(server: Remote, version: int, state: str) -> bool:
    """Raises ClickException for a failed load."""
    found = {"state": "END", "error": "", "note": ""}
    for each in server.describe_model()["versions"]:
        if each["version"] == version:
            found = each
    if found["state"] == state and not found["note"]:
        return True
    if found["error"]:
        raise click.ClickException(
            f"version {version} of {server.model} failed to load: {found['error']}"
        )
    return False
