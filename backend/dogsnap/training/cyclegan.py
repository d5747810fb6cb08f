"""Trains a CycleGAN between two generated sets of pictures: Gaussian noise, and noise with a sinusoid in it."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from dogsnap.files import write_json
from dogsnap.networks import architectures
from dogsnap.training.dataset import Report
from dogsnap.training.trainer import remember

LOSSES = ("generators", "discriminators", "cycle")
HELD_OUT, EXAMPLES = (
    32,
    4,
)  # pictures to measure on, and those of them that are written for trying out


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the outcome of a training.

    `width`: filters of the generators' first layer, the "ngf" of the literature, and of the discriminators'. `size`: (height,
    width) of the pictures, multiples of 8. `pictures`: in each of the two sets. `rate`: of Adam with beta_1 0.5, falling to 0 in
    a straight line. `cycle`: weight of the cycle loss. `deviation`: of the Gaussian noise in both sets, in [-1, 1] units.
    `amplitude`, `period` (pixels, across): of the sinusoid, which is the same in every picture, as a camera's fault would be.
    What it brought, and what other settings did: docs/lab_notes.md.
    """

    width: int = 64
    size: tuple[int, int] = (64, 64)
    steps: int = 250
    batch: int = 1
    pictures: int = 64
    rate: float = 5e-4
    cycle: float = 10.0
    deviation: float = 0.2
    amplitude: float = 0.5
    period: int = 4
    checkpoint_every: int = 100
    seed: int = 20

    def generator(self) -> keras.Model:
        """A fresh one of this recipe's size."""
        return architectures.cyclegan_generator(self.width, self.size)


def gaussian_noise(count: int, recipe: Recipe, seed: int, amplitude: float = 0.0) -> np.ndarray:
    """Grey noise, on a sinusoid of this amplitude that runs across: float32 (count, height, width, 3) in [-1, 1]."""
    across = np.arange(recipe.size[1]).reshape(1, 1, -1, 1)
    wave = amplitude * np.sin(2 * np.pi * across / recipe.period)
    noise = np.random.default_rng(seed).normal(0, recipe.deviation, (count, *recipe.size, 1))
    return np.repeat(np.clip(wave + noise, -1, 1), 3, axis=-1).astype(np.float32)


def sinusoid_share(images: np.ndarray, period: int) -> np.ndarray:
    """How much of a picture's power, its mean left out, lies in the one frequency of the sinusoid: (n,) in [0, 1].

    `images` (n, height, width, channels) in any unit. White noise has 2 parts in height x width; a pure sinusoid has 1.
    """
    power = np.abs(np.fft.fft2(images.mean(-1))) ** 2
    power[:, 0, 0] = 0
    across = images.shape[2] // period
    return (power[:, 0, across] + power[:, 0, -across]) / power.sum((1, 2))


class Networks:
    """Both generators and both discriminators with their optimizers, and the step that trains them."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        discriminator = partial(architectures.cyclegan_discriminator, recipe.width, recipe.size)
        self.to_wave, self.to_noise = recipe.generator(), recipe.generator()
        self.judge_wave, self.judge_noise = discriminator(), discriminator()
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._makers = self.to_wave.trainable_variables + self.to_noise.trainable_variables
        self._judges = self.judge_wave.trainable_variables + self.judge_noise.trainable_variables
        self._make, self._judge = _optimizer(recipe, self._makers), _optimizer(recipe, self._judges)
        networks = [self.to_wave, self.to_noise, self.judge_wave, self.judge_noise]
        self.checkpoint = tf.train.Checkpoint(
            step=self.step, networks=networks, optimizers=[self._make, self._judge]
        )
        # Each network is traced once for all the places it is called from: a third of the time until the first step.
        self._called = [tf.function(network, autograph=False) for network in networks]
        self.train = tf.function(self._train, autograph=False)

    def _train(self, noise: tf.Tensor, wave: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """One step on a batch of each set; returns the losses of LOSSES. Least squares and L1, as in the paper."""
        to_wave, to_noise, judge_wave, judge_noise = self._called
        with tf.GradientTape(persistent=True) as tape:
            made_wave, made_noise = to_wave(noise), to_noise(wave)
            cycle = _apart(to_noise(made_wave), noise) + _apart(to_wave(made_noise), wave)
            made = _squared(judge_wave(made_wave), 1.0) + _squared(judge_noise(made_noise), 1.0)
            makers = made + self.recipe.cycle * cycle
            judges = sum(
                _squared(judge(real), 1.0) + _squared(judge(tf.stop_gradient(fake)), 0.0)
                for judge, real, fake in (
                    (judge_wave, wave, made_wave),
                    (judge_noise, noise, made_noise),
                )
            )
            judges = 0.5 * judges  # the discriminators learn more slowly than the generators
        self._make.apply(tape.gradient(makers, self._makers), self._makers)
        self._judge.apply(tape.gradient(judges, self._judges), self._judges)
        self.step.assign_add(1)
        return made, judges, cycle


def _optimizer(recipe: Recipe, variables: list) -> keras.optimizers.Optimizer:
    rate = keras.optimizers.schedules.PolynomialDecay(
        recipe.rate, recipe.steps, end_learning_rate=0.0
    )
    optimizer = keras.optimizers.Adam(rate, beta_1=0.5)
    optimizer.build(variables)
    return optimizer


def _apart(image: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.abs(image - other))


def _squared(judged: tf.Tensor, wanted: float) -> tf.Tensor:
    return tf.reduce_mean(tf.square(judged - wanted))


def train(recipe: Recipe, folder: Path, report: Report) -> keras.Model:
    """Train `recipe` and return the generator that puts the sinusoid in, in float32.

    `folder` keeps the newest checkpoint: called again with the same folder it goes on where it stopped, with the pictures that
    would have come next. Raises ValueError when `folder` belongs to another recipe or the losses are no numbers any more,
    OSError when the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remember(asdict(recipe), folder)
    keras.utils.set_random_seed(recipe.seed)
    networks = Networks(recipe)
    checkpoints = tf.train.CheckpointManager(networks.checkpoint, folder, max_to_keep=1)
    if checkpoints.latest_checkpoint:
        networks.checkpoint.restore(checkpoints.latest_checkpoint).assert_existing_objects_matched()
        report(f"going on behind step {int(networks.step)}, from {checkpoints.latest_checkpoint}")
    noise = gaussian_noise(recipe.pictures, recipe, recipe.seed)
    wave = gaussian_noise(recipe.pictures, recipe, recipe.seed + 1, recipe.amplitude)
    report(
        f"{recipe.steps} steps of {recipe.batch} pictures of each set; the first takes the longest"
    )
    first = int(networks.step)
    progress = keras.utils.Progbar(recipe.steps - first, interval=10.0, stateful_metrics=LOSSES)
    for step in range(first, recipe.steps):
        # The batches of a step are the same however often the training was interrupted.
        draws = [np.random.default_rng((recipe.seed, step, which)) for which in (0, 1)]
        places = [random.integers(0, recipe.pictures, recipe.batch) for random in draws]
        losses = networks.train(noise[places[0]], wave[places[1]])
        progress.add(1, list(zip(LOSSES, map(float, losses), strict=True)))
        if (step + 1) % recipe.checkpoint_every == 0 or step + 1 == recipe.steps:
            _keep(checkpoints, networks, losses, folder)
    return architectures.in_precision("float32", networks.to_wave, recipe.generator)


def _keep(
    checkpoints: tf.train.CheckpointManager, networks: Networks, losses: tuple, folder: Path
) -> None:
    if not np.isfinite(losses).all():
        raise ValueError(
            f"the losses at step {int(networks.step)} are no numbers any more; try a lower rate"
        )
    # Each network and two moments of each value, in float32; the last checkpoint is still there while the next is written.
    architectures.require_space(
        folder, 2 * 12 * (networks.to_wave.count_params() + networks.judge_wave.count_params())
    )
    checkpoints.save()


def finish(generator: keras.Model, recipe: Recipe, out: Path) -> dict:
    """Measure on pictures that were not trained on, write everything below `out`, and return the scores. Raises OSError.

    `out` gets the float16 weights, recipe.json, scores.json, and in examples/ some pictures of Gaussian noise to try. The
    scores: mean share of the sinusoid in Gaussian noise, in what the generator makes of it, and in the set it learned from.
    """
    noise = gaussian_noise(HELD_OUT, recipe, recipe.seed + 2)
    sets = {
        "before": noise,
        "after": generator.predict_on_batch(noise),
        "wanted": gaussian_noise(HELD_OUT, recipe, recipe.seed + 3, recipe.amplitude),
    }
    shares = {
        name: float(sinusoid_share(images, recipe.period).mean()) for name, images in sets.items()
    }
    scores = {
        "sinusoid_share": {name: round(each, 4) for name, each in shares.items()},
        "pictures": HELD_OUT,
    }
    (out / "examples").mkdir(parents=True, exist_ok=True)
    architectures.save_half_weights(generator, recipe.generator, out / architectures.STORED_WEIGHTS)
    for number, image in enumerate(noise[:EXAMPLES], start=1):
        tf.io.write_file(
            str(out / "examples" / f"gaussian_{number}.png"), tf.io.encode_png(as_pixels(image))
        )
    write_json({"architecture": architectures.CYCLEGAN, **asdict(recipe)}, out / "recipe.json")
    write_json(scores, out / "scores.json")
    return scores


def as_pixels(image: np.ndarray) -> np.ndarray:
    """[-1, 1] -> uint8."""
    return np.round((np.asarray(image) + 1) * 127.5).astype(np.uint8)
