"""Trains a CycleGAN that puts a sinusoid into Gaussian noise, and exports it as
models/cyclegan/1.

It makes its own pictures and takes minutes: `python
docs/tutorials/cyclegan.py`. How to serve the result: docs/models.md.
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

# Of the Gaussian noise in both sets, and of the sinusoid in one of them, for pictures in [-1, 1].
DEVIATION, AMPLITUDE, PERIOD = 0.2, 0.5, 4
PICTURES = 64  # in each set
RATE = 5e-4  # of Adam, falling to 0 in a straight line
CYCLE = 10.0  # weight of the loss of the way there and back
EXAMPLES = 4


def make_noise(count: int, size: int, seed: int, amplitude: float = 0.0) -> np.ndarray:
    """Grey noise, on a sinusoid that runs across: float32 (count, size, size,
    3) in [-1, 1].
    """
    wave = amplitude * np.sin(2 * np.pi * np.arange(size) / PERIOD).reshape(1, 1, -1, 1)
    noise = np.random.default_rng(seed).normal(0, DEVIATION, (count, size, size, 1))
    return np.repeat(np.clip(wave + noise, -1, 1), 3, axis=-1).astype(np.float32)


def measure_sinusoid(images: np.ndarray) -> float:
    """The mean share of a picture's power that lies in the frequency of the
    sinusoid, in [0, 1].
    """
    power = np.abs(np.fft.fft2(images.mean(-1))) ** 2
    power[:, 0, 0] = 0
    across = images.shape[2] // PERIOD
    shares = (power[:, 0, across] + power[:, 0, -across]) / power.sum((1, 2))
    return float(shares.mean())


def convolve(x, filters: int, kernel: int, strides: int = 1, relu: bool = True):
    """A convolution, instance normalisation and, unless it ends a residual
    block, a ReLU.
    """
    x = layers.Conv2D(filters, kernel, strides, "same", use_bias=False)(x)
    x = layers.GroupNormalization(groups=-1)(x)
    return layers.ReLU()(x) if relu else x


def build_generator(width: int, size: int) -> keras.Model:
    """As in Zhu et al., 2017, section 7.2, for small pictures: six residual blocks."""
    image = keras.Input((size, size, 3), name="image")
    x = convolve(image, width, 7)
    x = convolve(x, 2 * width, 3, 2)
    x = convolve(x, 4 * width, 3, 2)
    for _ in range(6):
        block = convolve(x, 4 * width, 3)
        x = layers.Add()([x, convolve(block, 4 * width, 3, relu=False)])
    for filters in (2 * width, width):
        x = layers.Conv2DTranspose(filters, 3, 2, "same", use_bias=False)(x)
        x = layers.ReLU()(layers.GroupNormalization(groups=-1)(x))
    generated = layers.Conv2D(3, 7, padding="same", activation="tanh", name="generated")(x)
    return keras.Model(image, generated)


def build_discriminator(width: int, size: int) -> keras.Model:
    """Judges patches: near 1 where a picture is real."""
    image = keras.Input((size, size, 3))
    x = layers.LeakyReLU(0.2)(layers.Conv2D(width, 4, 2, "same")(image))
    for filters in (2 * width, 4 * width):
        x = layers.Conv2D(filters, 4, 2, "same", use_bias=False)(x)
        x = layers.LeakyReLU(0.2)(layers.GroupNormalization(groups=-1)(x))
    return keras.Model(image, layers.Conv2D(1, 4, padding="same")(x))


class CycleGan(keras.Model):
    """Both ways between two sets of pictures, trained on pairs of one picture
    of each set.
    """

    def __init__(self, width: int, size: int):
        super().__init__()
        self.to_wave = build_generator(width, size)
        self.to_noise = build_generator(width, size)
        self.judge_wave = build_discriminator(width, size)
        self.judge_noise = build_discriminator(width, size)

    def compile(self, generators: keras.Optimizer, judges: keras.Optimizer) -> None:
        super().compile()
        self.generator_optimizer = generators
        self.judge_optimizer = judges

    def train_step(self, pair: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Least squares and absolute differences, as in the paper."""
        noise, wave = pair
        with tf.GradientTape(persistent=True) as tape:
            made_wave, made_noise = self.to_wave(noise), self.to_noise(wave)
            there_and_back = tf.reduce_mean(tf.abs(self.to_noise(made_wave) - noise))
            there_and_back += tf.reduce_mean(tf.abs(self.to_wave(made_noise) - wave))
            made = tf.reduce_mean(tf.square(self.judge_wave(made_wave) - 1))
            made += tf.reduce_mean(tf.square(self.judge_noise(made_noise) - 1))
            generators = made + CYCLE * there_and_back
            judges = 0.0
            for judge, real, fake in (
                (self.judge_wave, wave, made_wave),
                (self.judge_noise, noise, made_noise),
            ):
                judges += tf.reduce_mean(tf.square(judge(real) - 1))
                judges += tf.reduce_mean(tf.square(judge(tf.stop_gradient(fake))))
            judges = 0.5 * judges  # the discriminators learn more slowly than the generators
        weights = self.to_wave.trainable_weights + self.to_noise.trainable_weights
        self.generator_optimizer.apply(tape.gradient(generators, weights), weights)
        weights = self.judge_wave.trainable_weights + self.judge_noise.trainable_weights
        self.judge_optimizer.apply(tape.gradient(judges, weights), weights)
        return {"generators": made, "discriminators": judges, "cycle": there_and_back}


def train(width: int, size: int, steps: int) -> keras.Model:
    """The generator that puts the sinusoid in."""
    keras.utils.set_random_seed(20)
    noise = make_noise(PICTURES, size, 20)
    wave = make_noise(PICTURES, size, 21, AMPLITUDE)
    pairs = [tf.data.Dataset.from_tensor_slices(images).repeat() for images in (noise, wave)]
    shuffled = [pictures.shuffle(PICTURES, seed=7) for pictures in pairs]
    model = CycleGan(width, size)
    rate = keras.optimizers.schedules.PolynomialDecay(RATE, steps, end_learning_rate=0.0)
    optimizers = [keras.optimizers.Adam(rate, beta_1=0.5) for _ in range(2)]
    model.compile(*optimizers)
    model.fit(tf.data.Dataset.zip(tuple(shuffled)).batch(1), steps_per_epoch=steps, shuffle=False)
    return model.to_wave


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("models/cyclegan"))
    parser.add_argument("--width", type=int, default=64, help="filters of the first layer")
    parser.add_argument("--size", type=int, default=64, help="pixels a side, a multiple of 8")
    parser.add_argument("--steps", type=int, default=250)
    options = parser.parse_args()
    generator = train(options.width, options.size, options.steps)
    held_out = make_noise(32, options.size, 22)
    before = measure_sinusoid(held_out)
    after = measure_sinusoid(generator.predict(held_out, verbose=0))
    print(f"the sinusoid's share of the spectrum: {before:.1%} before, {after:.1%} after")
    generator.export(str(options.out / "1"), verbose=False)
    (options.out / "examples").mkdir(exist_ok=True)
    for number, image in enumerate(held_out[:EXAMPLES], start=1):
        pixels = np.round((image + 1) * 127.5).astype(np.uint8)
        keras.utils.save_img(options.out / "examples" / f"gaussian_{number}.png", pixels)


if __name__ == "__main__":
    main()
