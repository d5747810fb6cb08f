"""Prints what a server's administration API answers, or what was measured, as JSON or by a
template in `texts/`.
"""

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import click
from jinja2 import Environment, PackageLoader, select_autoescape

from dogsnap.logs import escape_unprintable


def escape(value: object) -> str:
    """What users and authors have written moves no cursor and changes no colour."""
    return "\n".join(map(escape_unprintable, str(value).split("\n")))


TEXTS = Environment(
    loader=PackageLoader("dogsnap.commands", "texts"),
    autoescape=select_autoescape(),  # of pages
    finalize=escape,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def print_answer(
    template: str, answer: Mapping[str, Any], as_json: bool = False, **more: Any
) -> None:
    """`more`: further variables of the template.

    Lines with as many tabs one after another are a table, whose columns are as
    wide as their longest cell.
    """
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    text = TEXTS.get_template(template).render(answer, **more)
    rows = [line.split("\t") for line in text.removesuffix("\n").split("\n") if line]
    for _, table in groupby(rows, len):
        lines = list(table)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            click.echo("  ".join(map(str.ljust, line, widths)).rstrip())
