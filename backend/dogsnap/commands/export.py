"""`dogsnap export`: builds a version from stored weights or from a vision transformer."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from dogsnap.commands.helpers import renewal
from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option
from dogsnap.commands.helpers.label_files import class_labels
from dogsnap.commands.helpers.own_process import beside
from dogsnap.settings import MODELS

VIT = "vit"


@click.command()
@click.argument("model")
@option(
    "--from",
    "folder with the float16 weights, labels, recipe and scores  [default: OUT/MODEL "
    "where it holds them, otherwise "
    "models/MODEL]; for vit: the folder of a KerasHub preset or of a Hugging Face "
    "checkpoint (safetensors or tf_model.h5), "
    "or hf://OWNER/NAME  [default: hf://google/vit-base-patch16-224]",
    name="source",
)
@option(
    "--out",
    "folder with models: the version is written to OUT/MODEL/<next number>",
    PATH,
    name="models",
    default=MODELS,
)
@option(
    "--labels", "vit: names of the classes, one a line, if the checkpoint has none", EXISTING_FILE
)
@option(
    "--merged",
    "build the versions of `dogsnap merge` and `dogsnap merge --fast` beside it",
    is_flag=True,
)
@option(
    "--renew",
    "instead of the next version, replace those that this command built before, and "
    "only if what they are "
    "made from (weights, code, TensorFlow ...) has changed since",
    is_flag=True,
)
def export(
    model: str, source: str | None, models: Path, labels: Path | None, merged: bool, renew: bool
) -> None:
    """Build the next version of MODEL: from the weights that training stored,
    or of vit, from any ViT of KerasHub.
    """
    if model != VIT and labels:
        raise click.UsageError("--labels is for `dogsnap export vit` alone")
    # Training stores the weights in OUT, or else in models/.
    trained = models / model if (models / model / "recipe.json").is_file() else MODELS / model
    artefacts = Path(source) if source else trained
    if not renew:
        for folder in _export(model, source, artefacts, models, labels, merged):
            click.echo(f"wrote {folder}")
    elif model == VIT:
        raise click.UsageError("--renew is for weights that training stored, not for vit")
    else:
        renewal.renew(
            artefacts,
            models / model,
            lambda folder: _export(model, source, artefacts, folder, None, merged),
            click.echo,
            "merged" if merged else "",
        )


def _export(
    model: str, source: str | None, artefacts: Path, models: Path, labels: Path | None, merged: bool
) -> list[Path]:
    """The version folders written."""
    from dogsnap.exporting import SECOND_OPINION, TAUGHT
    from dogsnap.exporting.publication import together

    with together(models / model) as folder:
        answers_alone = any((artefacts / name).is_file() for name in (TAUGHT, SECOND_OPINION))
        if merged and model != VIT and answers_alone:
            written = _export_and_answering(model, artefacts, folder)
        else:
            from dogsnap.exporting.export import export_stored
            from dogsnap.exporting.freezing import Source
            from dogsnap.exporting.merging.merge import merge_all

            if model == VIT:
                exported = Source(_export_vit(source, labels, folder))
            else:
                exported = export_stored(model, artefacts, folder.parent, click.echo)
            written = [exported.folder, *(merge_all(exported, click.echo) if merged else ())]
    return [models / model / each.name for each in written]


def _export_and_answering(model: str, artefacts: Path, folder: Path) -> list[Path]:
    """The version that answers the app is another network, which is built
    beside the first.
    """
    from dogsnap.exporting.publication import WRITING, publish

    with (
        TemporaryDirectory(prefix=WRITING, dir=folder) as apart,
        beside(_export_answering, model, artefacts, Path(apart)) as answering,
    ):
        # Imported while the other process starts, which imports them as well.
        from dogsnap.exporting.export import export_stored
        from dogsnap.exporting.merging.merge import merge
        from dogsnap.exporting.merging.options import Options

        exported = export_stored(model, artefacts, folder.parent, click.echo)
        return [
            exported.folder,
            merge(exported, Options(), click.echo),
            publish(answering.result(), folder),
        ]


def _export_answering(model: str, artefacts: Path, models: Path) -> Path:
    from dogsnap.exporting import phone
    from dogsnap.exporting.export import read_answering
    from dogsnap.exporting.merging.merge import merge_answering

    stored = read_answering(model, artefacts)
    exported = stored.export(models / model)
    (answering,) = merge_answering(exported, click.echo, required=True)
    phone.write(answering, stored, artefacts)
    return answering


def _export_vit(source: str | None, labels: Path | None, model_folder: Path) -> Path:
    from dogsnap.exporting import vit

    preset = source or vit.DEFAULT_PRESET
    click.echo(f"reading {preset}")
    names = [label["name"] for label in class_labels(labels, of_breeds=False)]
    return vit.export_vit(preset, names, model_folder, click.echo)
