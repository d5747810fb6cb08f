"""`dogsnap show`: prints the signatures and the graph of a SavedModel."""

import logging
from pathlib import Path

import click

from dogsnap.commands.helpers.answer_text import TEXTS, print_answer
from dogsnap.commands.helpers.arguments import PATH, option


@click.command()
@click.argument("model_dir", type=PATH, required=False)
@option("--version", "a version of the model in MODEL_DIR  [default: the largest]", int)
@option(
    "--nodes", "also the nodes of the graph, and where decoding would be merged in", is_flag=True
)
@option(
    "--dir",
    "as saved_model_cli: the same folder; alone it prints the tag-sets",
    PATH,
    name="directory",
)
@option("--all", "with --dir: all signatures", name="everything", is_flag=True)
@option("--tag_set", "with --dir: the names of the signatures of this graph, such as serve")
@option("--signature_def", "with --tag_set: inputs and outputs of this signature alone")
def show(
    model_dir: Path | None,
    version: int | None,
    nodes: bool,
    directory: Path | None,
    everything: bool,
    tag_set: str | None,
    signature_def: str | None,
) -> None:
    """Print the signatures in MODEL_DIR (a version, like models/inception_v3/2,
    or a model) as saved_model_cli does.
    """
    from dogsnap.exporting import inspection
    from dogsnap.exporting.merging.image_input import find_image_input
    from dogsnap.exporting.merging.options import MergeError

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # its advice on TensorFlow 1
    shown = model_dir or directory
    if shown is None or (model_dir and directory):
        raise click.UsageError(
            "expected the folder of a version or of a model, as MODEL_DIR or by --dir"
        )
    if signature_def and not tag_set:
        raise click.UsageError("--signature_def needs --tag_set, such as --tag_set serve")
    folder = inspection.version_folder(shown, version)
    graph = inspection.find_graph(folder, tag_set) if tag_set else None
    if graph and signature_def and signature_def not in graph.signature_def:
        available = ", ".join(sorted(graph.signature_def))
        raise click.ClickException(
            f"{folder} has no signature {signature_def}; available: {available}"
        )
    text = TEXTS.get_template("saved_model.txt").render(
        graphs=inspection.meta_graphs(folder),
        graph=graph,
        signature=graph.signature_def[signature_def] if graph and signature_def else None,
        tag_sets=directory is not None and not everything and not nodes,
        type_name=inspection.TYPE_NAME,
    )
    click.echo(text, nl=False)
    if nodes:
        print_answer("nodes.txt", {"parts": inspection.list_nodes(folder)})
        try:
            found = find_image_input(inspection.input_specs(folder))
            click.echo(f"\nDecoding would be merged in front of {found}.")
        except MergeError as error:
            click.echo(f"\nNo decoding can be merged in as it is: {error}.")
