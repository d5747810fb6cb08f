"""Training, whole and small: a tiny network learns three breeds by the real code, resumes, and is stored."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.networks import architectures
from dogsnap.networks.architectures import (
    STORED_WEIGHTS,
    backbone_of,
    inception_v3,
    load_stored_weights,
)
from dogsnap.training import dataset, own_classes
from lab import artefacts, photo_lists, trainer
from lab.recipes import Stage
from support.photos import make_data_set
from support.tiny_network import tiny_recipe
from support.tiny_network import tiny_with_box as tiny

pytestmark = pytest.mark.early

SIZE = (16, 16)
RECIPE = tiny_recipe(
    stages=(Stage("all", from_block=None, epochs=30, rate=0.1, warmup=5),),
    dropout=0.0,
    average=0.9,
    chunk=20,
)


@pytest.fixture(scope="module", autouse=True)
def _tiny_architecture() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One training, and what it left behind."""
    folder = tmp_path_factory.mktemp("training")
    keras.utils.set_random_seed(5)
    data = make_data_set(folder / "dogs")
    examples = dataset.read_list(data, "train_list")
    fitted, validation = dataset.split_validation(
        examples, RECIPE.validation_per_breed, RECIPE.seed
    )
    starting = folder / "start.weights.h5"
    tiny(3, SIZE).save_weights(starting)
    model = trainer.train(RECIPE, fitted, validation, 3, starting, folder / "work")
    return SimpleNamespace(
        folder=folder, starting=starting, training=fitted, validation=validation, model=model
    )


def _loss(model: keras.Model, run: SimpleNamespace) -> float:
    _, logits = own_classes.features_and_logits(model, run.training)
    breeds = dataset.breeds_of(run.training)
    return float(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(breeds, logits)))


def test_the_loss_falls_and_no_weight_of_the_backbone_stays_as_it_came(
    run: SimpleNamespace,
) -> None:
    start = tiny(3, SIZE)
    load_stored_weights(start, run.starting)
    assert _loss(run.model, run) < 0.5 * _loss(start, run)
    came, went = (backbone_of(model).trainable_weights for model in (start, run.model))
    assert len(came) == 4  # kernels and offsets: the statistics are those that are stored
    assert [
        a.path for a, b in zip(came, went, strict=True) if np.array_equal(a.numpy(), b.numpy())
    ] == []


def test_a_second_call_takes_the_finished_stages_and_trains_nothing(
    run: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    work = run.folder / "work"
    again = trainer.train(RECIPE, run.training, run.validation, 3, Path("no such file"), work)
    assert f"all: done before, taken from {work / 'all.weights.h5'}" in capsys.readouterr().out
    for ours, theirs in zip(run.model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_soup_is_the_weighted_mean_of_what_the_stages_left(
    run: SimpleNamespace, tmp_path: Path
) -> None:
    parts = {"start": 0.25, "all": 0.75}
    recipe = dataclasses.replace(RECIPE, soup=tuple(parts.items()))
    work = shutil.copytree(run.folder / "work", tmp_path / "work")
    (work / "run.json").unlink()
    soup = trainer.train(recipe, run.training, run.validation, 3, run.starting, work)
    expected = [np.zeros(weight.shape) for weight in soup.get_weights()]
    for stage, share in parts.items():
        part = tiny(3, SIZE)
        part.load_weights(work / f"{stage}.weights.h5")
        expected = [
            so_far + share * weight
            for so_far, weight in zip(expected, part.get_weights(), strict=True)
        ]
    for weight, mean, last in zip(soup.weights, expected, run.model.get_weights(), strict=True):
        is_of_box = weight.path.partition("/")[0] in trainer.BOX_LAYERS
        np.testing.assert_allclose(weight, last if is_of_box else mean, rtol=1e-5, atol=1e-6)
    assert any(
        not np.allclose(a, b)
        for a, b in zip(soup.get_weights(), run.model.get_weights(), strict=True)
    )


def test_a_damaged_record_of_a_training_is_that_of_another_training(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"recipe')
    with pytest.raises(ValueError, match="holds another training"):
        trainer.refuse_other_training({"recipe": 1}, tmp_path)


def test_a_work_folder_of_another_recipe_is_refused_and_left_alone(run: SimpleNamespace) -> None:
    other = dataclasses.replace(RECIPE, batch=4)
    before = (run.folder / "work" / "run.json").read_text()
    with pytest.raises(ValueError, match="holds another training"):
        trainer.train(other, run.training, run.validation, 3, run.starting, run.folder / "work")
    assert (run.folder / "work" / "run.json").read_text() == before


def test_what_is_stored_loads_again_in_half_the_size_and_describes_itself(
    run: SimpleNamespace, tmp_path: Path
) -> None:
    labels = photo_lists.labels_of(dataset.breed_folders(run.folder / "dogs"), None)
    artefacts.finish(run.model, RECIPE, labels, run.training, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "labels.json").read_text()) == labels
    assert json.loads((tmp_path / "out" / "recipe.json").read_text())["seed"] == RECIPE.seed
    again = tiny(3, SIZE)
    load_stored_weights(again, tmp_path / "out" / STORED_WEIGHTS)
    for ours, stored in zip(
        run.model.get_weights(), again.get_weights(), strict=True
    ):  # kernels in half the size
        np.testing.assert_array_equal(stored, ours.astype(np.float16) if ours.ndim > 1 else ours)
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        STORED_WEIGHTS,
        "labels.json",
        "recipe.json",
    ]


def _train_in_chunks(
    run: SimpleNamespace, work: Path, stop: int | None = None
) -> list[tuple[int, int]]:
    """Epochs and steps where an epoch started, the last of them `stop`."""
    recipe = dataclasses.replace(
        RECIPE, stages=(dataclasses.replace(RECIPE.stages[0], epochs=10),), chunk=15
    )
    starts = []

    def note(epoch: int, _: dict | None) -> None:
        starts.append((epoch, int(noting.model.optimizer.iterations)))
        if epoch == stop:
            raise InterruptedError

    noting = keras.callbacks.LambdaCallback(on_epoch_begin=note)
    callbacks = trainer._callbacks
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(InterruptedError):
        patch.setattr(trainer, "_callbacks", lambda *given: [*callbacks(*given), noting])
        trainer.train(recipe, run.training, run.validation, 3, run.starting, work)
    return starts


@pytest.fixture(scope="module")
def interrupted(run: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training leaves that was stopped at the start of its third epoch."""
    work = tmp_path_factory.mktemp("interrupted") / "work"
    assert _train_in_chunks(run, work, stop=2) == [(0, 0), (1, 15), (2, 30)]
    return work


@pytest.mark.parametrize(
    ("torn", "resumes_at"), [(None, 2), ("latest.weights.h5", 1), ("training_metadata.json", 1)]
)
def test_an_interrupted_stage_goes_on_from_its_newest_whole_checkpoint(
    run: SimpleNamespace, interrupted: Path, tmp_path: Path, torn: str | None, resumes_at: int
) -> None:
    work = shutil.copytree(interrupted, tmp_path / "work")
    if torn:
        file = work / "all-checkpoint" / torn
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    begun = _train_in_chunks(run, work)
    assert begun[0] == (resumes_at, 15 * resumes_at), (
        f"went on at {begun[0]}, not where it stopped: {begun}"
    )
    left = ["all.weights.h5", "run.json", "start.weights.h5", "teacher.npz"]
    assert sorted(path.name for path in work.iterdir()) == left


def test_training_that_has_seen_some_photos_goes_on_with_the_next_ones(
    run: SimpleNamespace,
) -> None:
    targets = np.eye(3, dtype=np.float32)[dataset.breeds_of(run.training)]

    def breeds(seen: int, batches: int) -> list[int]:
        views = trainer.training_batches(
            run.training, targets, SIZE, RECIPE.batch, seed=3, seen=seen
        )
        return [int(np.argmax(row)) for _, shown in views.take(batches) for row in shown["breeds"]]

    # over the end of the first round, where the order changes
    rounds = 2 * len(run.training) // RECIPE.batch
    whole = breeds(0, rounds)
    assert whole[2 * RECIPE.batch :] == breeds(2 * RECIPE.batch, rounds - 2)
    assert whole[: len(whole) // 2] != whole[len(whole) // 2 :]


def test_the_real_network_has_breed_and_dog_logits_and_holds_its_lower_blocks_when_told() -> None:
    model = inception_v3(120, (75, 75))
    answer = model(np.zeros((2, 75, 75, 3), np.float32))
    assert answer["breeds"].shape == (2, 120)
    assert answer["dog"].shape == (2, 1)
    everything = len(
        trainer.learner_of(model, Stage("all", None, 1, 0.1, warmup=1)).trainable_weights
    )
    upper = len(
        trainer.learner_of(model, Stage("upper", "mixed8", 1, 0.1, warmup=1)).trainable_weights
    )
    assert (everything, upper) == (197, 45)


def test_the_plainer_the_breed_the_more_a_photo_shows_a_dog() -> None:
    model = tiny(3, SIZE)
    weights, _ = model.get_layer("dog").get_weights()
    model.get_layer("dog").set_weights([np.zeros_like(weights), np.array([0.5], np.float32)])
    answer = model(np.random.default_rng(1).uniform(size=(4, *SIZE, 3)))
    np.testing.assert_allclose(
        answer["dog"][:, 0], np.max(answer["breeds"], axis=1) + 0.5, rtol=1e-6
    )


def test_batch_statistics_stay_as_they_are_while_the_weights_learn() -> None:
    model = tiny(3, SIZE)
    trainer.learner_of(model, Stage("all", None, 1, 0.1, warmup=1))
    learner = keras.Model(model.input, {"breeds": model.output["breeds"]})
    learner.compile(
        keras.optimizers.SGD(0.1),
        {"breeds": keras.losses.CategoricalCrossentropy(from_logits=True)},
    )
    before = {w.path: w.numpy() for w in backbone_of(model).weights}
    target = {"breeds": np.eye(3)[[0, 1, 2, 0, 1, 2, 0, 1]]}
    learner.fit(np.random.default_rng(1).uniform(size=(8, *SIZE, 3)), target, verbose=0)
    changed = {
        w.path.split("/")[-1]
        for w in backbone_of(model).weights
        if not np.array_equal(before[w.path], w.numpy())
    }
    assert changed == {"kernel", "beta"}
