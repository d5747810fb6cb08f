"""Statistics of the breeds' features, and the weights of a new class that follow from them and a few photos."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from backend.files import replacing

STATISTICS_FILE = "class_statistics.npz"
# Directions of the shared covariance that are kept: beyond them its eigenvalues are far below the shrinkage.
DIRECTIONS = 256
# Added to every eigenvalue of the covariance, in units of their mean. Measured over all 120 breeds, each removed and taught
# again from 20 photos: 1 gives 64 % recall, 3 gives 84 %, 6 gives 90 % and costs the others 0.1 points, 12 gives 92 % and 0.2.
SHRINKAGE = 6.0
# What decides the offset of a new class's logit, see `ClassStatistics.taught`. Lab note, with earlier weights: recall of 120
# breeds, each removed and taught again from 20 photos, and what one and ten of them take from the others, in points; recall of
# five breeds outside the 120, taught by a half of their 28 to 66 photos:
#     no offset                                  88.5 %  0.10  0.56   75.7 %
#     0.25 for every breed                       89.6 %  0.12  0.80   78.6 %
#     0.5 for every breed                        91.2 %  0.14  0.93   80.4 %
#     until LOSS is reached                      93.1 %  0.18  1.21   80.6 %
#     the same, no more than RECOGNISED takes    89.3 %  0.10  0.68   79.7 %
# The last takes least from the others where a new breed needs no offset. With the weights after those, it has 88.4 % (87.4 %
# without an offset), 0.10, 0.73, and 83.6 % (72.8 %).
FOLDS = 5
RECOGNISED = 0.9  # share of the teaching photos, each left out, for which the offset is raised
LOSS = 0.001  # share of the stored validation photos that a new class may take from the others by its offset
# Share of them that one new class may take at all, and that each further one in the same version may add; a new class's logit is
# lowered where they would take more. Measured: recall of 120 breeds, each removed and taught again; what one takes on the other
# test photos, in points (mean, largest); what ten take: removed breeds (20 draws) and breeds from outside the 120 (20 draws):
#     not lowered          88.4 %  0.10  1.20   1.04   1.29
#     0.002 and 0.00075    87.1 %  0.08  0.84   0.83   0.98
# Five breeds from outside the 120, each taught alone, keep their 83.6 %.
LOSS_OF_ONE, LOSS_OF_FURTHER = 0.002, 0.00075
ROUNDING = 1e-4  # by which a logit may differ that is computed in another order


class StatisticsError(ValueError):
    """The file of statistics is missing or belongs to other weights; the message says what to do."""


@dataclass(frozen=True)
class NewClass:
    """A class that was added: its `weights` float32 (f,) and `bias`.

    `left_out` float32 (n,): its logits for the photos that teach it, each from the others alone, offset included.
    """

    weights: np.ndarray
    bias: np.float32
    left_out: np.ndarray


@dataclass(frozen=True)
class ClassStatistics:
    """What is kept of the training photos: enough to add a class, too little to show a photo.

    `means` float32 (classes, f): mean pooled features of each class. `directions` float32 (f, k), orthonormal, and `variances`
    float32 (k,): the largest eigenvectors and eigenvalues of the covariance that the classes share. `mean_variance`: mean of all
    eigenvalues. `checked` float32 (n, f) and `checked_classes` int (n,): features of validation photos and their classes, which
    measure what a new class takes from the others.
    """

    means: np.ndarray
    directions: np.ndarray
    variances: np.ndarray
    mean_variance: np.ndarray
    checked: np.ndarray
    checked_classes: np.ndarray

    @classmethod
    def of(
        cls, features: np.ndarray, classes: np.ndarray, checked: np.ndarray, checked_classes: np.ndarray
    ) -> "ClassStatistics":
        """Statistics of training features (m, f) with their `classes` int (m,), every one of 0 to the largest among them."""
        features = features.astype(np.float32)
        means = np.stack([features[classes == each].mean(axis=0) for each in range(classes.max() + 1)])
        within = features - means[classes]
        covariance = within.T @ within / max(len(features) - len(means), 1)
        variances, directions = np.linalg.eigh(covariance)
        kept = slice(max(len(variances) - DIRECTIONS, 0), None)
        mean_variance = np.float32(np.trace(covariance) / len(covariance))
        return cls(means, directions[:, kept], variances[kept], mean_variance, checked, checked_classes)

    def save(self, path: Path, weights: str = "", made_by: str = "") -> None:
        """Write the statistics, arrays as float16; the file is replaced in one step, and holds no time.

        `weights`: the SHA-256 of the stored weights that the features come from. `made_by`: the command and its version.
        """
        arrays = {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}
        halves = {name: each.astype(np.float16) if each.ndim == 2 else each for name, each in arrays.items()}
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **halves, weights=np.array(weights), made_by=np.array(made_by))

    @classmethod
    def load(cls, path: Path, classes: int, features: int, weights: str = "") -> "ClassStatistics":
        """Read what `save` wrote for a network of so many classes and features, with these `weights`.

        Raises StatisticsError in one sentence.
        """
        if not path.is_file():
            raise StatisticsError(
                f"{path} does not exist; expected the statistics that `dogsnap calibrate` writes beside the weights"
            )
        try:
            with np.load(path) as arrays:
                loaded = {field.name: arrays[field.name] for field in fields(cls)}
                made_from = str(arrays["weights"]) if "weights" in arrays else ""
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise StatisticsError(f"{path} cannot be read: {error}") from error
        statistics = cls(**{name: each.astype(np.float32) if each.ndim == 2 else each for name, each in loaded.items()})
        if statistics.means.shape != (classes, features):
            raise StatisticsError(
                f"{path} is of {statistics.means.shape[0]} classes with {statistics.means.shape[1]} features; "
                f"the network has {classes} with {features}"
            )
        if made_from != weights:
            raise StatisticsError(
                f"{path} was made from the weights with the SHA-256 {made_from[:12] or 'unknown'}, expected "
                f"{weights[:12] or 'unknown'}; `dogsnap calibrate` writes it anew"
            )
        return statistics

    def _whitened(self, offsets: np.ndarray) -> np.ndarray:
        """(covariance + shrinkage) to the power of -1, applied to rows (n, f)."""
        added = SHRINKAGE * self.mean_variance
        shares = self.variances / (self.variances + added)
        return (offsets - (offsets @ self.directions * shares) @ self.directions.T) / added

    def new_class(self, mean: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.float32]:
        """The column of `kernel` (f, classes) and the entry of `bias` (classes,) for a class with mean features `mean` (f,).

        Linear discriminant analysis with a shrunken covariance, brought to the scale of the trained head: the factor that
        takes the discriminants of the known classes nearest to their trained weights, and the offset that gives them
        their trained logits at the centre of all classes.
        """
        known = self.means.shape[0]
        kernel, bias = kernel[:, :known], bias[:known]
        centre, common = self.means.mean(axis=0), kernel.mean(axis=1)
        offsets = self.means - centre
        discriminants, trained = self._whitened(offsets), kernel.T - common
        scale = (discriminants * trained).sum() / (discriminants**2).sum()
        offset = (bias + centre @ kernel + scale / 2 * (discriminants * offsets).sum(axis=1)).mean()
        discriminant = self._whitened((mean - centre)[np.newaxis])[0]
        weights = common + scale * discriminant
        at_centre = offset - scale / 2 * discriminant @ (mean - centre)
        return weights.astype(np.float32), np.float32(at_centre - centre @ weights)

    def taught(self, features: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> NewClass:
        """The class that photos with `features` (n, views, f) show, behind those of `kernel` (f, classes) and `bias` (classes,).

        The first view is the photo as it is answered. A class from few photos scores photos that did not teach it lower than
        those that did, so its logit is raised by an offset: until RECOGNISED of the photos are recognised by a class that
        is taught without them, but by no more than LOSS allows. It is lowered where this class and those that were taught
        before it (of `kernel`, behind the classes of these statistics) would together take too much from the others, see
        LOSS_OF_ONE.
        """
        weights, own = self.new_class(features.mean(axis=(0, 1)), kernel, bias)
        folds = np.arange(len(features)) % FOLDS
        left_out = np.zeros(len(features), np.float32)
        for fold in range(FOLDS):
            without = self.new_class(features[folds != fold].mean(axis=(0, 1)), kernel, bias)
            left_out[folds == fold] = features[folds == fold, 0] @ without[0] + without[1]
        lacking = (features[:, 0] @ kernel + bias).max(axis=1) - left_out
        raised, most = self._largest_offsets(weights, own, kernel, bias)
        # Those that are left out have no part in their offset either.
        offsets = np.array([_offset(lacking[folds != fold], raised, most) for fold in range(FOLDS)])
        return NewClass(weights, np.float32(own + _offset(lacking, raised, most)), left_out + offsets[folds])

    def _largest_offsets(
        self, weights: np.ndarray, own: float, kernel: np.ndarray, bias: np.ndarray
    ) -> tuple[float, float]:
        """Up to which this class takes at most LOSS of the stored validation photos; up to which it and those taught before
        it together take at most their share.
        """
        known = self.checked @ kernel + bias
        first, count = len(self.means), len(self.checked)
        right = known.argmax(axis=1) == self.checked_classes
        spare = np.append(np.sort((known.max(axis=1) - self.checked @ weights - own)[right]) - ROUNDING, np.inf)
        before = (known[:, :first].argmax(axis=1) == self.checked_classes).sum() - right.sum()
        allowed = (LOSS_OF_ONE + LOSS_OF_FURTHER * (kernel.shape[1] - first)) * count - before
        raised, most = spare[np.clip([LOSS * count, allowed], 0, len(spare) - 1).astype(int)]
        return float(raised), float(most)


def _offset(lacking: np.ndarray, raised: float, most: float) -> float:
    """`lacking` (n,): by how much the logits of left-out photos are too low; `raised`, `most`: see _largest_offsets."""
    return min(max(0.0, min(float(np.quantile(lacking, RECOGNISED)), raised)), most)
