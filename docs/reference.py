"""Writes `docs/reference.md` from the code: commands, routes, settings and
metrics. `make reference` runs it.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from dogsnap.settings import Settings, flag, table

HEAD = "# Reference\n\nWritten by `make reference` from the code; a test holds both together.\n"
INTRODUCED = {
    "Settings": "Each setting is a flag of `dogsnap serve` and an environment variable: `--max-body-mb 8` is "
    "`DOGSNAP_MAX_BODY_MB=8`.\nUnknown `DOGSNAP_` variables are refused.",
    "Routes": "`/openapi.json` of a running server has the fields of each, and `/docs` is a page to try them.",
    "Metrics": "`GET /metrics` takes the token for administration.\n"
    "Besides these, it has Prometheus' usual `process_*` and `python_info`.",
    "Commands": "`dogsnap serve` takes every setting as a flag.",
}

# What Prometheus' text format appends to the names.
SUFFIXES = {"counter": "_total", "info": "_info"}


def rows(*head: str, body: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for cells in body:
        yield (
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )


def settings() -> Iterator[str]:
    body = ((f"`{flag(row.name)}`", f"`{row.default}`", row.metadata["help"]) for row in table())
    yield from rows("flag", "default", "what it does", body=body)


def routes() -> Iterator[str]:
    from dogsnap.server.protocols.openapi import describe

    paths = describe(Settings())["paths"]
    body = (
        (f"`{method.upper()} {path.replace('{', '<').replace('}', '>')}`", operation["summary"])
        for path, operations in paths.items()
        for method, operation in operations.items()
    )
    yield from rows("route", "what it does", body=body)


def metrics() -> Iterator[str]:
    from dogsnap.gateway.gateway_predictor import create_gateway
    from dogsnap.serving.assembly import create_predictor
    from dogsnap.serving.metrics import Metrics

    nowhere = Settings(models=Path("nowhere"), engine="grpc://127.0.0.1:1")
    found = {}
    for predictor in (create_predictor(nowhere), create_gateway(nowhere, Metrics())):
        for each in predictor.metrics.registry.collect():
            if each.name.startswith("dogsnap_"):
                found.setdefault(
                    each.name, (each, predictor.metrics.label_names.get(each.name, ()))
                )
        predictor.close()
    body = (
        (
            f"`{name}{SUFFIXES.get(each.type, '')}`",
            each.type,
            ", ".join(labels),
            each.documentation,
        )
        for name, (each, labels) in found.items()
    )
    yield from rows("metric", "type", "labels", "meaning", body=body)


def commands() -> Iterator[str]:
    from dogsnap.cli import COMMANDS, main

    context = click.Context(main, info_name="dogsnap")
    yield from rows(
        "command",
        "what it does",
        body=((f"`dogsnap {name}`", line) for name, line in COMMANDS.items()),
    )
    for name in COMMANDS:
        yield from _described(main.get_command(context, name), f"dogsnap {name}")


def _described(command: click.Command, name: str) -> Iterator[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    title = " ".join([name, *(each.make_metavar(click.Context(command)) for each in arguments)])
    yield f"\n### `{title}`\n\n{' '.join((command.help or '').split())}\n"
    options = [
        each for each in command.params if isinstance(each, click.Option) and not each.hidden
    ]
    if options and name != "dogsnap serve":  # whose options are the settings
        body = ((f"`{', '.join(each.opts)}`", each.help or "") for each in options)
        yield from rows("option", "what it does", body=body)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _described(each, f"{name} {each.name}")


def text() -> str:
    """The whole page."""
    lines = [HEAD, *(f"- [{title}](#{title.lower()})" for title in INTRODUCED)]
    for title, body in zip(INTRODUCED, (settings(), routes(), metrics(), commands()), strict=True):
        lines += ["", f"## {title}", "", INTRODUCED[title], "", *body]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
