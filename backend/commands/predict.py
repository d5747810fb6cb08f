"""`dogsnap predict`: the answer of /api/classify, without a server, through the same predictor."""

from pathlib import Path
from typing import Any

import click

from backend.commands.serve import prepare_logging
from backend.settings import Settings, given, options


@click.command()
@click.argument("photo", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", default="", help="model to ask; the default model otherwise")
@click.option("--version", type=int, default=None, help="version to ask; the largest otherwise")
@click.option("--label", default=None, help="label to ask, in place of a version")
@click.option("--top-k", type=int, default=None, help="how many breeds to name; 5 otherwise")
@options("models", "model_config_file", "default_model", "max_photo_pixels")
def predict(photo: Path, model: str, version: int | None, label: str | None, top_k: int | None, **flags: Any) -> None:
    """Name the breed in PHOTO, without a server."""
    settings = Settings.from_environment(**given(flags))
    prepare_logging()
    from backend.doors.app_api import answer
    from backend.errors import DogsnapError
    from backend.serving.assembly import create_predictor
    from backend.serving.repository import ModelSpec

    try:
        spec = ModelSpec(model or settings.default_model, version, label)
        predictor = create_predictor(settings, only=spec)
        predictor.repository.look(trust=True)
        result = predictor.classify(photo.read_bytes(), spec, top_k, door="command")
    except DogsnapError as error:
        raise click.ClickException(error.message) from error
    click.echo(show(answer(result)))


def show(answer: dict[str, Any]) -> str:
    """The JSON of the HTTP door, indented for reading."""
    import orjson

    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
