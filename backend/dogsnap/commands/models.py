"""`dogsnap models`: lists and switches the versions of a running server."""

import functools
import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

import click

from dogsnap.commands.helpers.admin_client import Remote, server_options
from dogsnap.commands.helpers.arguments import option
from dogsnap.commands.helpers.verdict_text import lines_of, table
from dogsnap.errors import InvalidArgument
from dogsnap.logs import escape_unprintable
from dogsnap.routing.state import read_state

POLL_SECONDS = 0.3
UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def model_options(command: Callable) -> Callable:
    """The same with --model."""
    return option("--model", "otherwise the server's default model", default="")(
        server_options(command)
    )


def sent_flag(flag: str, text: str) -> Callable[[Callable], Callable]:
    """Decorates a command with a flag that goes along with what it switches."""
    name = flag.removeprefix("--").replace("-", "_")

    def decorate(command: Callable) -> Callable:
        @functools.wraps(command)
        def with_flag(server: Remote, **arguments: Any) -> Any:
            if arguments.pop(name):
                server.sent[name] = True
            return command(server, **arguments)

        return option(flag, text, is_flag=True)(with_flag)

    return decorate


plan_option = sent_flag("--dry-run", "only say what would change")
# Where versions are compared with those that they replace.
force_option = sent_flag("--force", "also if clients would feel the differences")
guard_option = sent_flag("--guard", "undo it if that version fails more, or takes longer")


def move_options(command: Callable) -> Callable:
    """The same with --force and --guard."""
    return guard_option(force_option(command))


def json_option(command: Callable) -> Callable:
    """The same with --json, which prints what the server answers."""
    return option("--json", "print JSON", is_flag=True, name="as_json")(command)


class Duration(click.ParamType):
    """A number with its unit: 30s, 10m, 2h or 1d; in seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            return float(str(value)[:-1]) * UNIT_SECONDS[str(value)[-1:]]
        except (ValueError, KeyError):
            self.fail(f"{value!r} is no duration; expected a number and a unit: 30s, 10m, 2h, 1d")


class Steps(click.ParamType):
    """Percentages, e.g. 5,25,50,100."""

    name = "STEPS"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[float]:
        try:
            steps = [float(step) for step in str(value).split(",")]
            json.dumps(steps, allow_nan=False)
            return steps
        except ValueError:
            self.fail(f"{value!r} are no steps; expected percentages such as 5,25,50,100")


class Time(click.ParamType):
    """A time in ISO 8601, of this machine's zone if it names none; as text with
    its zone.
    """

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            return datetime.fromisoformat(value).astimezone().isoformat()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no time; expected one such as 2026-12-24T03:00")


@click.group()
def models() -> None:
    """See and switch the versions of a running server."""


@models.command("list")
@server_options
@json_option
def list_models(server: Remote, as_json: bool) -> None:
    """List the versions with state, requests and latencies."""
    found = server.get("models")
    if as_json:
        _print_json(found)
        return
    for model in found["models"]:
        _print(table_of(model))
    if not found["switches_kept"]:
        _print("switches are forgotten when the server stops (--switch-log off)")
    if found["switches_refused"]:
        _print(f"switches are refused for now: {found['switches_refused']}")


@models.command()
@click.argument("model", default="")
@server_options
def show(server: Remote) -> None:
    """Show one model in detail."""
    model = server.describe_model()
    chosen, shadow = model["default_chosen"], model["shadow"]
    _print(table_of(model))
    _print(f"  default: {'none is chosen' if chosen is None else f'version {chosen}, as chosen'}")
    if shadow:
        counts = ", ".join(
            f"{shadow[result]} {result}" for result in ("agree", "differ", "dropped", "failed")
        )
        _print(f"  shadow: version {shadow['version']}: {counts}")


@models.command()
@click.argument("version", type=int)
@option("--wait", "seconds to wait until it is available", default=300.0)
@model_options
@plan_option
def load(server: Remote, version: int, wait: float) -> None:
    """Load VERSION and keep it loaded.

    This also works for a version that was unloaded, that failed to load, that
    the version policy excludes, or whose folder was exported again: the one
    before answers until it is loaded.
    """
    reached = _reach(server, version, "load", ("AVAILABLE",), wait)
    if reached is None:
        return
    _print(f"version {version} of {server.model} is {'available' if reached else 'still loading'}")


@models.command()
@click.argument("version", type=int)
@option("--wait", "seconds to wait until its last request is done", default=60.0)
@model_options
@plan_option
def unload(server: Remote, version: int, wait: float) -> None:
    """Unload VERSION and keep it unloaded.

    It is unloaded after its last request. A version in use by a label, split,
    shadow or default is not unloaded.
    """
    reached = _reach(server, version, "unload", ("END", None), wait)
    if reached is None:
        return
    ended = "is unloaded" if reached else "takes no new requests and still answers the last ones"
    _print(f"version {version} of {server.model} {ended}")


@models.group()
def label() -> None:
    """Set, move and remove labels."""


@label.command("set")
@click.argument("name")
@click.argument("version", type=int)
@model_options
@plan_option
@move_options
def set_label(server: Remote, name: str, version: int) -> None:
    """Point the label NAME to VERSION; a new label is created.

    If the version is not available yet, the label waits for it.
    """
    _report(server.switch("labels", name, version=version), name)


@label.command()
@click.argument("name")
@click.argument("version", type=int)
@option(
    "--from", "fail unless the label points to this version now", int, name="expected", default=None
)
@model_options
@plan_option
@move_options
def move(server: Remote, name: str, version: int, expected: int | None) -> None:
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
    _report(server.switch("labels", name, version=version, **{"from": expected}), name)


@label.command()
@click.argument("name")
@model_options
@plan_option
def remove(server: Remote, name: str) -> None:
    """Remove the label NAME.

    Requests for this label fail from then on.
    """
    _report(server.switch("labels", name, version=None))


@models.command()
@click.argument("version")
@model_options
@plan_option
@move_options
def default(server: Remote, version: str) -> None:
    """Choose the default version: VERSION or "latest", the largest that is
    available now.

    A version that comes later takes over only if it is chosen, or if the
    version policy is "latest".
    """
    _report(server.switch("default", version=_number_or("latest", version)))


@models.command()
@option("--label", "the label to split; otherwise the default", name="name", default="")
@option("--to", "version that gets the share", int, name="version", default=None)
@option("--percent", "share in percent; 0 ends the split", float, required=True)
@model_options
@plan_option
@move_options
def split(server: Remote, name: str, version: int | None, percent: float) -> None:
    """Send a share of the requests to another version.

    A client stays on one side: it is recognised by its header X-Request-Key, or
    else by its address.
    """
    if percent and version is None:
        raise click.UsageError(
            "expected --to with the version that gets the share; or --percent 0 to end the split"
        )
    _report(server.switch("split", label=name, version=version, percent=percent))


@models.command()
@click.argument("label", default="")
@click.argument("version", type=int, required=False)
@option("--steps", "shares in percent, rising; the last is 100", Steps(), default=None)
@option("--every", "how long each step lasts at least", Duration(), default="10m")
@option("--requests", "of the new version, that each step needs at least", int, default=None)
@option("--at", "when the first step begins; otherwise now", Time(), default=None)
@click.option("--pause", "steer", flag_value="pause", help="stay at the step that it is at")
@click.option("--resume", "steer", flag_value="resume", help="go on; the step begins afresh")
@click.option("--end", "steer", flag_value="end", help="go back to the version before")
@model_options
@plan_option
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
        server.sent.pop("force", None)
        _report(server.switch("rollout", steer, label=label))
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
@model_options
@plan_option
def shadow(server: Remote, version: str) -> None:
    """Send copies of the photos to VERSION, which does not answer; "off" ends
    it.

    It is used while the server is not busy; how often it agrees with the
    answers is counted.
    """
    _report(server.switch("shadow", version=_number_or("off", version)))


@models.command()
@click.argument("model", default="")
@server_options
@json_option
def verdict(server: Remote, as_json: bool) -> None:
    """Which version of MODEL is better, by what people said, and how often its
    shadow agrees with it.
    """
    found = server.get("verdict", model=server.named)
    if as_json:
        _print_json(found)
        return
    for line in lines_of(found):
        _print(line)


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
    found = server.get("switches", model=server.named)
    if as_json:
        _print_json(found)
        return
    for switch in found["switches"]:
        _print(line_of(switch))


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
def apply(server: Remote, file: TextIO) -> None:
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
    _report(server.post("apply", state=state))


@models.command()
@click.argument("number", type=int, required=False)
@option("--model", "only of this model", default="")
@server_options
@plan_option
def undo(server: Remote, number: int | None) -> None:
    """Undo the last switch, or switch NUMBER of the log."""
    _report(server.post("undo", id=number, model=server.named))


def _print(text: str) -> None:
    """Print lines; what users and authors have written moves no cursor and
    changes no colour.
    """
    for line in text.split("\n"):
        click.echo(escape_unprintable(line))


def _print_json(found: dict[str, Any]) -> None:
    click.echo(json.dumps(found, indent=2))


# -- what is printed ---------------------------------------------------------------------------------------------------


def table_of(model: dict[str, Any]) -> str:
    """A table of a model's versions."""
    rows = [("version", "state", "used by", "requests", "refused", "failed", "median", "95 %")]
    for each in model["versions"]:
        counts = (each[name] for name in ("requests", "refused", "failed"))
        times = (
            "-" if each[name] is None else f"{each[name]:.1f} ms" for name in ("p50_ms", "p95_ms")
        )
        rows.append(
            (each["version"], each["state"], ", ".join(each["used_by"]) or "-", *counts, *times)
        )
    waiting = [
        f"  label {label} waits for version {number}"
        for label, number in model["pending_labels"].items()
    ]
    failed = []
    for version in model["versions"]:
        for text in filter(None, (version["error"], version["note"])):
            failed.append(f"  version {version['version']}: {text}")
    guards = []
    for found in model["guards"]:
        setting = f"label {found['label']}" if found["label"] else "the default"
        what = "split" if found["kind"] == "split" else "move"
        guards.append(f"  guard of the {what} of {setting} to {found['version']}: {found['text']}")
    for found in model["rollouts"]:
        setting = f"label {found['label']}" if found["label"] else "the default"
        guards.append(f"  rollout of {setting} {found['text']}")
    return "\n".join([model["name"], *table(rows), *guards, *waiting, *failed, *_newer(model)])


def _newer(model: dict[str, Any]) -> list[str]:
    """Says of a version that came while another one answered that it does not
    answer those who name none.
    """
    available = [each["version"] for each in model["versions"] if each["state"] == "AVAILABLE"]
    newest, default = max(available, default=None), model["default_version"]
    if newest in (None, default) or model["default_chosen"] is not None:
        return []
    return [
        f"  version {default} goes on answering who names none; `dogsnap models default "
        f"{newest}` moves that to {newest}"
    ]


def line_of(switch: dict[str, Any]) -> str:
    who = f"{switch['by']['name']} {switch['by']['address']}".strip()
    undo = ""
    if switch["undoes"]:
        undo = f" (undoes {switch['undoes']})"
    elif switch["undone"]:
        undo = f" (undone by switch {switch['undone_by']})"
    return f"{switch['id']:>4}  {switch['at'][:19]}Z  {who}  {switch['text']}{undo}"


def _report(answer: dict[str, Any], label: str = "") -> None:
    switch = answer["switch"]
    if "would" in answer:
        _report_plan(answer)
        return
    for note in answer.get("notes", ()):
        _print(f"note: {note}")
    _print(f"{switch['text']} (switch {switch['id']})" if switch else "nothing to change")
    waits_for = answer["model"] and answer["model"]["pending_labels"].get(label)
    if waits_for is not None:
        versions = sorted(each["version"] for each in answer["model"]["versions"])
        there = ", ".join(map(str, versions)) or "none"
        exists = (
            "is not available yet"
            if waits_for in versions
            else f"does not exist yet; there are: {there}"
        )
        _print(f"label {label} waits for version {waits_for}, which {exists}")


def _report_plan(answer: dict[str, Any]) -> None:
    """Say what a switch would change, and how its versions differ from those
    that they replace.
    """
    for change in answer["would"]:
        _print(f"would change {change}")
    for difference in answer.get("differences", ()):
        _print(f"refused without --force: {difference}")
    for note in answer.get("notes", ()):
        _print(f"note: {note}")
    _print("nothing was changed" if answer["would"] else "nothing to change")


def _number_or(word: str, text: str) -> int | None:
    """None for the word."""
    try:
        return None if text == word else int(text)
    except ValueError:
        raise click.UsageError(f'version is "{text}"; expected a number, or "{word}"') from None


def _reach(
    server: Remote, version: int, step: str, states: tuple[str | None, ...], seconds: float
) -> bool | None:
    """Load or unload, and wait for one of these states; False after `seconds`,
    None if it is only planned.

    Raises ClickException for a failed load.
    """
    answer = server.switch("versions", version, step)
    if "would" in answer:
        _report_plan(answer)
        return None
    end = time.monotonic() + seconds
    while True:
        versions = server.describe_model()["versions"]
        found = next(
            (each for each in versions if each["version"] == version),
            {"state": None, "error": "", "note": ""},
        )
        if found["state"] in states and not (step == "load" and found["note"]):
            return True
        if found["error"]:
            raise click.ClickException(
                f"version {version} of {server.model} failed to load: {found['error']}"
            )
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
