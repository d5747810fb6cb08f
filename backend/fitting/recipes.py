"""Recipes: what is trained, in which order and how fast, as data, each with its lab note."""

from dataclasses import dataclass

Soup = tuple[tuple[str, float], ...]  # stages ("head" is the first) and their weights in the mean


@dataclass(frozen=True)
class Stage:
    """One stage of a training: which layers are trained, how long and at which rate.

    `from_block`: the last layer of the backbone that is frozen; None trains every layer.
    `rate`: peak learning rate of SGD with Nesterov momentum, reached after `warmup` steps, then falling as a half cosine.
    `drift_every`: steps between two updates of the stored batch statistics; 0: none.
    `strength`: of the augmentation, in [0, 1]; see `augmentation.augment`.
    `size`: (height, width) of the views; None: the recipe's. `falls`: whether the rate falls after the warm-up.
    """

    name: str
    from_block: str | None
    epochs: float
    rate: float
    warmup: int = 100
    drift_every: int = 0
    strength: float = 1.0
    size: tuple[int, int] | None = None
    falls: bool = True


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training, except the photos and the starting weights.

    `soup`: the share of each finished stage
    in the weighted mean of their weights that the network ends with (model soups, Wortsman et al. 2022); empty: the last stage's
    weights. The layers of the box are the last stage's.
    `teacher_share`: of the starting network's answer to the crop of the dog in the target of all its views; the label has the
    rest, in place of label smoothing. `box_weight`: of the box's loss. `head_rate`: of Adam, for layers that the starting weights
    do not have, as a share of the stage's rate.
    """

    architecture: str
    size: tuple[int, int]
    stages: tuple[Stage, ...]
    batch: int = 32
    head_views: int = 1
    head_strength: float = 0.3
    head_epochs: int = 40
    dropout: float = 0.2
    label_smoothing: float = 0.1
    clip_norm: float = 2.0
    average: float = 0.998
    validation_per_breed: int = 10
    chunk: int = 135
    seed: int = 20
    soup: Soup = ()
    teacher_share: float = 0.0
    box_weight: float = 0.2
    head_rate: float = 0.1
    note: str = ""


INCEPTION_V3 = Recipe(
    architecture="inception_v3",
    size=(299, 299),
    stages=(
        Stage("small", from_block="mixed2", epochs=2.01, rate=0.003, warmup=60, size=(224, 224), falls=False),
        Stage("full", from_block="mixed2", epochs=2.17, rate=0.003, warmup=1),
    ),
    teacher_share=0.4,
    average=0.997,
    soup=(("head", 0.2), ("full", 0.8)),
    note=(
        "From the weights of inception_v3_crops, with whole pictures and boxes. Top-1 on 986 validation "
        "pictures and 1,200 validation crops: 79.5 and 89.1 % before, 81.4 and 89.1 % after. On two cores of a Zen 5 beside "
        "other programs, 72 minutes. Shares of the last stage of 0.6, 0.8 and 1.0 in the mean have 79.6, 80.2 and 79.4 % of "
        "480 validation pictures, and 91.6, 90.9 and 90.3 % of 320 crops. More of the same does not help: six epochs more at the "
        "same rate, with a quarter of the batches mixed up and a fifth cut and mixed, have 81.5 % of the validation pictures and "
        "85.8 % of the web photos, both as before, and 89.2 % of 500 crops (90.6 before); means with the start, at shares of 0.4 "
        "and 0.6, have 81.5 and 81.9, 86.1 and 85.8, 89.4 and 89.4 %. Their boxes are better: overlap 0.69 in place of 0.665."
    ),
)

INCEPTION_V3_CROPS = Recipe(
    architecture="inception_v3",
    size=(299, 299),
    stages=(
        Stage("all", from_block=None, epochs=3, rate=0.002, warmup=50, drift_every=100, strength=0.7),
        Stage("longer", from_block=None, epochs=4, rate=0.002, warmup=50, drift_every=100, strength=1.0),
    ),
    soup=(("head", 0.3), ("all", 0.35), ("longer", 0.35)),
    note=(
        "Top-1 on 1,200 validation crops and 99 full-frame photos: head 85.9 and 84.8 %, all 89.4 and 84.8 %, longer 88.5 "
        "and 88.9 %, the soup 88.8 and 88.9 %. Tried, on validation: every layer at rate 0.008, 224x224, falls from 86 % to "
        "72 % on training views within 270 steps; the upper blocks alone, on cached features of one weakly changed view, "
        "learn that view by heart (97 % there, 85 % on validation, from 87 %). More of the same is not what is missing: the "
        "mean answer of four trainings has 89.0 %, that of four views of each photo 89.3 %, and 7 % are wrong in all four."
    ),
)

RECIPES = {"inception_v3": INCEPTION_V3, "inception_v3_crops": INCEPTION_V3_CROPS}
