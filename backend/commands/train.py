"""`dogsnap train`: from a folder of photos to the artefacts that `dogsnap export` builds a version from."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="Stanford Dogs layout: images/<wnid>-<Name>/, train_list.txt",
)
@click.option(
    "--weights",
    default="imagenet",
    show_default=True,
    help="`imagenet` (fetched by Keras) or a .weights.h5 file of the backbone",
)
@click.option(
    "--recipe", "recipe_name", default="inception_v3", show_default=True, help="a recipe of modeling/recipes.py"
)
@click.option(
    "--not-dogs",
    type=click.Path(path_type=Path),
    help="folder of photos without a dog: every second one teaches the dog head",
)
@click.option(
    "--out",
    default=Path("models/inception_v3"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="where the artefacts go",
)
@click.option("--work", type=click.Path(path_type=Path), help="checkpoints, to resume from  [default: .dogsnap/RECIPE]")
@click.option(
    "--breeds",
    default=Path("models/breeds.json"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="names for the labels",
)
@click.option(
    "--precision", type=click.Choice(["auto", "float32", "mixed_bfloat16"]), default="auto", show_default=True
)
def train(
    data: Path,
    weights: str,
    recipe_name: str,
    not_dogs: Path | None,
    out: Path,
    work: Path | None,
    breeds: Path,
    precision: str,
) -> None:
    """Train a network for the breeds in DATA; interrupted, the same command goes on from the newest checkpoint."""
    import keras

    from backend.modeling import dataset, finishing, training
    from backend.modeling.recipes import RECIPES

    if recipe_name not in RECIPES:
        raise click.ClickException(f"no recipe {recipe_name!r}; there are: {', '.join(RECIPES)}")
    recipe = RECIPES[recipe_name]
    try:
        folders = dataset.breed_folders(data)
        labels = dataset.labels_of(folders, breeds)
        examples = dataset.readable(dataset.read_list(data, "train_list"), click.echo)
        dataset.check_taught(folders, examples)
        fitted, validation = dataset.split_validation(examples, recipe.validation_per_breed, recipe.seed)
        keras.config.set_dtype_policy(training.fastest_precision() if precision == "auto" else precision)
        work = work or Path(".dogsnap") / recipe_name
        no_dogs = dataset.every_second_photo(not_dogs, 0) if not_dogs else []
        model = training.train(recipe, fitted, validation, len(labels), weights, work, click.echo, no_dogs)
        scores = finishing.finish(model, recipe, labels, fitted, validation, no_dogs, out, click.echo)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error).splitlines()[0]) from error
    click.echo(
        f"validation top-1 {scores['validation']['top1']:.2%}; artefacts are in {out}; now: dogsnap export {out.name}"
    )
