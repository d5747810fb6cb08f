"""Recipes: what is trained, in which order and how fast, as data; what each
brought is in backend/lab/notes.md.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One stage of a training: which layers are trained, how long and at which
    rate.

    `from_block`: the last layer of the backbone that is frozen; None trains
    every layer. `rate`: peak learning rate of SGD with Nesterov momentum,
    reached after `warmup` steps, then falling as a half cosine, if it `falls`.
    `size`: (height, width) of the views; None: the recipe's.
    """

    name: str
    from_block: str | None
    epochs: float
    rate: float
    warmup: int
    size: tuple[int, int] | None = None
    falls: bool = True


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training, except the photos and the starting
    weights.

    `soup`: stages ("start": the starting weights) and their shares in the mean of the
    weights that the network ends with (model soups, Wortsman et al. 2022). The
    layers of the box are the last stage's.
    `teacher_share`: of the starting network's answer to the crop of the dog in
    the target of all its views; the label has the rest. `box_weight`: of the box's
    loss. `head_rate`: of Adam, for layers that the starting weights of old did
    not have, as a share of the stage's rate.
    """

    architecture: str
    size: tuple[int, int]
    stages: tuple[Stage, ...]
    soup: tuple[tuple[str, float], ...]
    batch: int = 32
    dropout: float = 0.2
    clip_norm: float = 2.0
    average: float = 0.997
    validation_per_breed: int = 10
    chunk: int = 135
    seed: int = 20
    teacher_share: float = 0.4
    box_weight: float = 0.2
    head_rate: float = 0.1


INCEPTION_V3 = Recipe(
    architecture="inception_v3",
    size=(299, 299),
    stages=(
        Stage("small", "mixed2", epochs=2.01, rate=0.003, warmup=60, size=(224, 224), falls=False),
        Stage("full", "mixed2", epochs=2.17, rate=0.003, warmup=1),
    ),
    soup=(("start", 0.2), ("full", 0.8)),
)
