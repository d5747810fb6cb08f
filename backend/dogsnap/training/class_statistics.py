"""Statistics of the breeds' features, and the weights of a new class that
follow from them and a few photos.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from dogsnap.files import replacing
from dogsnap.training.dataset import FOLDS
from dogsnap.training.stored_arrays import load_arrays

DIRECTIONS = 256  # of the shared covariance that are kept: beyond them its eigenvalues are small
# features that are drawn for each known class, from a normal distribution with its mean and the
# shared covariance
DRAWN = 12
# Is added to every eigenvalue of the covariance, in units of their mean, where features
# are whitened.
SHRINKAGE = 6.0
# Of the squared weights of new classes in the whitened space; each new class weighs 1,
# as much as a known one.
PENALTY = 0.3
STEPS = 120
RATE = 0.02
# Share of the stored validation photos, each left out, that one new class may take from
# the others, and that each further one may add; all new logits are lowered where they
# would take more.
LOSS_OF_ONE = 0.0005
LOSS_OF_FURTHER = 0.0009
ROUNDING = 1e-4  # by which a logit may differ that is computed in another order


class StatisticsError(ValueError):
    """The file of statistics is missing or belongs to other weights; the
    message says what to do.
    """


@dataclass(frozen=True)
class NewClasses:
    """Classes that were added: `weights` float32 (f, k) and `bias` float32
    (k,).

    `parts`: the same weights and biases from fits without the photos of each of
    the FOLDS. `left_out`: for each class float32 (n, k), the logits of the
    photos that teach it, and `checked` float32 (m, k) those of the stored
    validation photos, each from the fit without it. Offsets are included.
    """

    weights: np.ndarray
    bias: np.ndarray
    parts: list[tuple[np.ndarray, np.ndarray]]
    left_out: list[np.ndarray]
    checked: np.ndarray


@dataclass(frozen=True)
class ClassStatistics:
    """What is kept of the training photos: enough to add a class, too little to
    show a photo.

    `means` float32 (classes, f): mean pooled features of each class.
    `directions` float32 (f, k), orthonormal, and `variances` float32 (k,): the
    largest eigenvectors and eigenvalues of the covariance that the classes
    share. `mean_variance`: mean of all eigenvalues. `checked` float32 (n, f)
    and `checked_classes` int (n,): features of validation photos and their
    classes, which measure what a new class takes from the others.
    """

    means: np.ndarray
    directions: np.ndarray
    variances: np.ndarray
    mean_variance: np.ndarray
    checked: np.ndarray
    checked_classes: np.ndarray

    @classmethod
    def of(
        cls,
        features: np.ndarray,
        classes: np.ndarray,
        checked: np.ndarray,
        checked_classes: np.ndarray,
    ) -> "ClassStatistics":
        """Statistics of training features (m, f) with their `classes` int (m,),
        every one of 0 to the largest among them.
        """
        features = features.astype(np.float32)
        count = classes.max() + 1
        means = np.stack([features[classes == breed].mean(axis=0) for breed in range(count)])
        within = features - means[classes]
        covariance = within.T @ within / max(len(features) - len(means), 1)
        variances, directions = np.linalg.eigh(covariance)
        kept = slice(max(len(variances) - DIRECTIONS, 0), None)
        mean_variance = np.array(np.trace(covariance) / len(covariance), np.float32)
        # Rounding leaves eigenvalues of 0 a little below it.
        return cls(
            means,
            directions[:, kept],
            np.maximum(variances[kept], 0),
            mean_variance,
            checked,
            checked_classes,
        )

    def save(self, path: Path, weights: str = "", made_by: str = "") -> None:
        """Write the statistics, arrays as float16; the file is replaced in one
        step, and holds no time.

        `weights`: the SHA-256 of the stored weights that the features come
        from. `made_by`: the command and its version.
        """
        arrays = vars(self) | {"weights": weights, "made_by": made_by}
        for name, array in arrays.items():
            if np.ndim(array) == 2:
                arrays[name] = array.astype(np.float16)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path, classes: int, features: int, weights: str = "") -> "ClassStatistics":
        """What `save` wrote for a network of so many classes and features, with
        these `weights`. Raises StatisticsError.
        """
        if not path.is_file():
            expected = "the statistics that `python -m lab calibrate` writes beside the weights"
            raise StatisticsError(f"{path} does not exist; expected {expected}")
        try:
            arrays = load_arrays(path)
            stated = [arrays[field.name] for field in fields(cls)]
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise StatisticsError(f"{path} cannot be read: {error}") from error
        statistics = cls(*(each.astype(np.float32) if each.ndim == 2 else each for each in stated))
        if statistics.means.shape != (classes, features):
            own = "{} classes with {} features".format(*statistics.means.shape)
            raise StatisticsError(f"{path} is of {own}; the network has {classes} with {features}")
        made_from = str(arrays.get("weights", ""))
        if made_from != weights:
            raise StatisticsError(
                f"{path} was made from the weights with the SHA-256 {made_from[:12] or 'unknown'}, "
                f"expected {weights[:12] or 'unknown'}; `python -m lab calibrate` writes it anew"
            )
        return statistics

    def _draw(self) -> np.ndarray:
        """DRAWN features of every class, float32 (n, f), from normal
        distributions with the shared covariance.
        """
        generator = np.random.default_rng(0)
        shape = len(self.means) * DRAWN, self.means.shape[1]
        beyond = self.mean_variance * shape[1] - self.variances.sum()
        noise = generator.normal(0, np.sqrt(max(beyond, 0) / shape[1]), shape)
        spread = np.sqrt(self.variances)
        noise += generator.normal(0, spread, (shape[0], len(spread))) @ self.directions.T
        # behind a ReLU
        drawn = np.maximum(np.repeat(self.means, DRAWN, axis=0) + noise, 0)
        return drawn.astype(np.float32)

    def fit_new_classes(
        self,
        features: Sequence[np.ndarray],
        kernel: np.ndarray,
        bias: np.ndarray,
        known: np.ndarray | None = None,
        folds: Sequence[np.ndarray] | None = None,
        checked_folds: np.ndarray | None = None,
    ) -> NewClasses:
        """The classes that photos show, `features` (n, views, f) for each,
        behind those of `kernel` (f, classes) and `bias`.

        The first view is the photo as it is answered. All new classes are
        fitted together, against each other and against the known ones, whose
        weights stay: softmax regression on the photos, the stored validation
        photos, features that are drawn from the statistics, and `known` (m, f),
        features of more photos of known classes. `folds`: int (n,) for each
        class, and `checked_folds` int (m,) of the stored validation photos: in
        which of FOLDS parts a photo is; by turns where not given.
        """
        more = self._draw() if known is None else np.concatenate([self._draw(), known])
        if folds is None:
            folds = [np.arange(len(each)) % FOLDS for each in features]
        if checked_folds is None:
            checked_folds = np.arange(len(self.checked)) % FOLDS
        parts = []
        for fold in range(FOLDS):
            taught = [each[own != fold] for each, own in zip(features, folds, strict=True)]
            others = np.concatenate([self.checked[checked_folds != fold], more])
            parts.append(self._fit(taught, others, kernel, bias))
        weights, offset = self._fit(features, np.concatenate([self.checked, more]), kernel, bias)
        checked = _logits_apart(self.checked, checked_folds, parts)
        lowered = self._find_lowering(checked, kernel, bias)
        left_out = []
        for each, own in zip(features, folds, strict=True):
            left_out.append(_logits_apart(each[:, 0], own, parts) - lowered)
        parts = [(of_part, own - lowered) for of_part, own in parts]
        return NewClasses(weights, offset - lowered, parts, left_out, checked - lowered)

    def _find_lowering(
        self, checked: np.ndarray, kernel: np.ndarray, bias: np.ndarray
    ) -> np.float32:
        """How far the logits of new classes, `checked` (m, k) of the stored
        validation photos, are to be lowered.

        They and those taught before, the last of `kernel`, may take from the
        others what LOSS_OF_ONE and LOSS_OF_FURTHER allow.
        """
        first = len(self.means)
        known = self.checked @ kernel + bias
        right = known.argmax(axis=1) == self.checked_classes
        if not right.any():
            return np.float32(0)
        spare = np.sort(known.max(axis=1)[right] - checked.max(axis=1)[right])
        before = (known[:, :first].argmax(axis=1) == self.checked_classes).sum() - right.sum()
        further = kernel.shape[1] - first + checked.shape[1] - 1
        allowed = int((LOSS_OF_ONE + LOSS_OF_FURTHER * further) * len(checked) - before)
        return np.float32(max(0, ROUNDING - spare[np.clip(allowed, 0, len(spare) - 1)]))

    def _whiten(self, offsets: np.ndarray) -> np.ndarray:
        """(covariance + shrinkage) to the power of -1/2, applied to rows (n, f)."""
        added = SHRINKAGE * self.mean_variance
        shares = 1 - np.sqrt(added / (self.variances + added))
        return (offsets - (offsets @ self.directions * shares) @ self.directions.T) / np.sqrt(added)

    def _fit(
        self,
        features: Sequence[np.ndarray],
        known: np.ndarray,
        kernel: np.ndarray,
        bias: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (f, k) and bias (k,) of the classes of `features` (n, views,
        f), by Adam on all photos at once.

        Each new class counts as much as a known one; `known` (m, f) show known
        classes, whose logits are by `kernel` and `bias`.
        """
        parts = [known]
        for views in features:
            parts.append(views.reshape(-1, known.shape[1]))
        counts = list(map(len, parts))
        classes = np.repeat(np.arange(len(parts)), counts)
        known_classes = np.ones(len(parts))
        known_classes[0] = kernel.shape[1]
        shares = (known_classes / counts).astype(np.float32)[classes]
        photos = np.concatenate(parts)
        fixed = tf.reduce_logsumexp(photos @ kernel + bias, axis=1, keepdims=True)
        centre = self.means.mean(axis=0)
        photos = tf.constant(self._whiten(photos - centre))
        weights = tf.Variable(tf.zeros((known.shape[1], len(features))))
        own = tf.Variable(tf.fill((len(features),), -1.0))
        variables = [weights, own]
        optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(RATE, STEPS))
        optimizer.build(variables)

        def step() -> None:
            with tf.GradientTape() as tape:
                logits = tf.concat([fixed, photos @ weights + own], axis=1)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)
                loss = tf.reduce_sum(shares * losses) + PENALTY * tf.reduce_sum(weights**2)
            optimizer.apply(tape.gradient(loss, variables), variables)

        compiled = tf.function(step)
        for _ in range(STEPS):
            compiled()
        found = self._whiten(weights.numpy().T).T
        return found, own.numpy() - centre @ found


def _logits_apart(
    features: np.ndarray, folds: np.ndarray, parts: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Logits float32 (n, k) of features (n, f), each by the weights and biases of the
    part that was fitted without its fold.
    """
    logits = np.zeros((len(features), len(parts[0][1])), np.float32)
    for fold, (weights, offset) in enumerate(parts):
        own = folds == fold
        logits[own] = features[own] @ weights + offset
    return logits
