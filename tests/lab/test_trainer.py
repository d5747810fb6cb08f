"""Training, whole and small: a tiny network learns three breeds by the real code, resumes, and is stored."""

import contextlib
import dataclasses
import json
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
    run: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "_fit_stage", pytest.fail)
    work = run.folder / "work"
    again = trainer.train(RECIPE, run.training, run.validation, 3, run.starting, work)
    for ours, theirs in zip(run.model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_soup_is_the_weighted_mean_of_what_the_stages_left(
    run: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {"start": 0.25, "all": 0.75}
    recipe = dataclasses.replace(RECIPE, soup=tuple(shares.items()))
    monkeypatch.setattr(
        trainer, "_fit_stage", lambda model, *_: model.set_weights(run.model.get_weights())
    )
    soup = trainer.train(recipe, run.training, run.validation, 3, run.starting, tmp_path)
    start = tiny(3, SIZE)
    start.load_weights(run.starting)
    expected = [
        0.25 * ours + 0.75 * last
        for ours, last in zip(start.get_weights(), run.model.get_weights(), strict=True)
    ]
    for weight, mean, last in zip(soup.weights, expected, run.model.get_weights(), strict=True):
        is_of_box = weight.path.partition("/")[0] in trainer.BOX_LAYERS
        np.testing.assert_allclose(weight, last if is_of_box else mean, rtol=1e-5, atol=1e-6)
    assert any(
        not np.allclose(a, b)
        for a, b in zip(soup.get_weights(), run.model.get_weights(), strict=True)
    )


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


def test_an_interrupted_stage_goes_on_where_it_stopped(
    run: SimpleNamespace, tmp_path: Path
) -> None:
    stage = dataclasses.replace(RECIPE.stages[0], epochs=10)
    recipe = dataclasses.replace(RECIPE, stages=(stage,), chunk=15)
    started: list[tuple[int, int]] = []

    class Noting(keras.callbacks.BackupAndRestore):
        """Ends the first call at the start of its third epoch."""

        def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
            super().on_epoch_begin(epoch, logs)
            started.append((epoch, int(self.model.optimizer.iterations)))
            if started == [(0, 0), (1, 15), (2, 30)]:
                raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.callbacks, "BackupAndRestore", Noting)
        for _ in range(2):
            with contextlib.suppress(InterruptedError):
                trainer.train(
                    recipe, run.training, run.validation, 3, run.starting, tmp_path / "work"
                )
    assert started[3] == (2, 30)
    (folder,) = (tmp_path / "work").iterdir()
    left = [path.name for path in folder.iterdir() if path.is_file()]
    assert sorted(name.partition("-")[0] for name in left) == ["all.weights.h5", "teacher"]


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
