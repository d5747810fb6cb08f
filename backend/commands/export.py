"""`dogsnap export`: builds a version from stored weights or from a vision transformer."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from backend.commands.helpers import renewal
from backend.commands.helpers.arguments import EXISTING_FILE, PATH, class_labels, option
from backend.commands.helpers.failures import Command
from backend.settings import MODELS

VIT = "vit"


@click.command(cls=Command)
@click.argument("model")
@option(
    "--from",
    "folder with the float16 weights, labels, recipe and scores  [default: OUT/MODEL where it holds them, otherwise "
    "models/MODEL]; for vit: the folder of a KerasHub preset or of a Hugging Face checkpoint (safetensors or tf_model.h5), "
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
@option("--labels", "vit: names of the classes, one a line, if the checkpoint has none", EXISTING_FILE)
@option(
    "--merged",
    "build the versions of `dogsnap merge` and `dogsnap merge --fast` beside it, in one process",
    is_flag=True,
)
@option(
    "--renew",
    "in place of the next version, replace those that this command built before, and only if weights, code or "
    "TensorFlow have changed since",
    is_flag=True,
)
def export(model: str, source: str | None, models: Path, labels: Path | None, merged: bool, renew: bool) -> None:
    """Build the next version of MODEL: from the weights that training stored, or of vit, from any ViT of KerasHub."""
    if model != VIT and labels:
        raise click.UsageError("--labels is for `dogsnap export vit` alone")
    artefacts = Path(source) if source else _stored(model, models)
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
        )


def _export(
    model: str, source: str | None, artefacts: Path, models: Path, labels: Path | None, merged: bool
) -> list[Path]:
    """The version folders written."""
    from backend.building.export import export_stored, export_taught
    from backend.building.freezing import Source
    from backend.building.merging.merge import merge_all
    from backend.building.publication import together

    with together(models / model) as folder, TemporaryDirectory() as apart:
        if model == VIT:
            exported, taught = Source(_export_vit(source, labels, folder)), None
        else:
            exported = export_stored(model, artefacts, folder.parent, click.echo)
            taught = export_taught(model, artefacts, Path(apart)) if merged else None
        written = [exported.folder, *(merge_all(exported, click.echo, taught) if merged else ())]
    return [models / model / each.name for each in written]


def _stored(model: str, models: Path) -> Path:
    """The folder with the model's weights: that of training, in OUT or else in models/."""
    return models / model if (models / model / "recipe.json").is_file() else MODELS / model


def _export_vit(source: str | None, labels: Path | None, model_folder: Path) -> Path:
    from backend.building import vit

    preset = source or vit.DEFAULT_PRESET
    click.echo(f"reading {preset}")
    names = [label["name"] for label in class_labels(labels, of_breeds=False)]
    return vit.export_vit(preset, names, model_folder, click.echo)
