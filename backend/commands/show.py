"""`dogsnap show`: prints the signatures and the graph of a SavedModel."""

from pathlib import Path

import click

from backend.commands.helpers.arguments import PATH


@click.command()
@click.argument("model_dir", type=PATH)
@click.option("--version", type=int, help="a version of the model in MODEL_DIR  [default: the largest]")
@click.option("--nodes", is_flag=True, help="also the nodes of the graph, and where decoding would be merged in")
def show(model_dir: Path, version: int | None, nodes: bool) -> None:
    """Print the signatures in MODEL_DIR (a version, like models/inception_v3/2, or a model) as saved_model_cli does."""
    from backend.export import inspection
    from backend.export.merge import MergeError, find_place

    try:
        folder = inspection.version_folder(model_dir, version)
        click.echo(inspection.signatures_text(folder))
        if not nodes:
            return
        click.echo(inspection.nodes_text(folder))
        click.echo(f"\nDecoding would be merged in front of {find_place(inspection.input_specs(folder))}.")
    except MergeError as error:
        click.echo(f"\nNo decoding can be merged in as it is: {error}.")
    except inspection.InspectionError as error:
        raise click.ClickException(str(error)) from error
