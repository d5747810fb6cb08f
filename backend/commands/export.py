"""`dogsnap export`: from the stored weights to a version that can be served."""

from pathlib import Path

import click


@click.command()
@click.argument("model")
@click.option(
    "--from",
    "artefacts",
    type=click.Path(path_type=Path),
    help="folder with the float16 weights, labels, recipe and scores  [default: models/MODEL]",
)
@click.option(
    "--out",
    "models",
    default=Path("models"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="folder of models: the version goes to OUT/MODEL/<next number>",
)
def export(model: str, artefacts: Path | None, models: Path) -> None:
    """Build the next version of MODEL (inception_v3) from its stored weights, without the network."""
    from backend.modeling.export import ExportError, export_stored

    try:
        folder = export_stored(model, artefacts or models / model, models)
    except (ExportError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {folder}")
