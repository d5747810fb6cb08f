"""How common each breed is among the dogs that people take photos of: the prior
of the network's answers.

The training photos show each breed equally often. People have many beagles and
Siberian huskies, and hardly an English foxhound or an Eskimo dog, which look
like them; without a prior, 43 % of the huskies and a quarter of the beagles on
the web get the rare name.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# By which the log-probability falls with each rank: the most common breed is 3.2 times as probable
# as the rarest. It is fixed and
# not fitted: validation photos show each breed equally often and cannot tell how common it is.
# Registrations differ a hundred
# times more, but other countries have other favourites, and rare breeds are asked about too. Lab
# note, top-1 of two passes in
# int8 on 1,235 photos from the web, 986 validation pictures and 1,200 crops: the first gain less
# from 0.006 on than before it.
#     0       86.7  83.2  88.5
#     0.002   87.0  83.4  88.7
#     0.004   88.3  82.8  88.4
#     0.006   89.0  82.9  88.6
#     0.008   89.6  82.8  88.4
#     0.010   90.0  82.8  88.3
#     0.016   90.3  82.5  87.9
STRENGTH = 0.006


def further_prior(
    known: Sequence[Mapping[str, Any]],
    prior: np.ndarray,
    further: Sequence[Mapping[str, Any]],
    file: Path,
) -> np.ndarray:
    """`prior` (n,) of the `known` breeds, and behind it that of `further` ones.

    One without a rank in `file` is as common as breeds are on average, and so
    are all where no known one has a rank.
    """
    ranks = read_ranks(file)
    behind = np.zeros(len(further), np.float32)
    ranked = [index for index, label in enumerate(known) if label["id"] in ranks]
    if ranked and np.ptp(prior):
        rank = ranks[known[ranked[0]]["id"]]
        value = prior[ranked[0]]
        for index, breed in enumerate(further):
            if breed["id"] in ranks:
                behind[index] = value + STRENGTH * (rank - ranks[breed["id"]])
    return np.append(prior, behind)


def read_ranks(file: Path) -> dict[str, float]:
    """The numbers by id in a JSON file {"ranks": {id: rank, ...}}, 1 for the most
    common breed; none without the file. Raises ValueError for a file of another kind.
    """
    if not file.is_file():
        return {}
    try:
        stated = json.loads(file.read_text(encoding="utf-8"))["ranks"]
        ranks = {breed: float(rank) for breed, rank in stated.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f'{file}: expected {{"ranks": {{id: rank, ...}}}}, as in models/popularity.json'
        ) from error
    if wrong := [breed for breed, rank in ranks.items() if not 1 <= rank < math.inf]:
        raise ValueError(
            f"{file}: expected ranks from 1 on, received {ranks[wrong[0]]:g} for {wrong[0]}"
        )
    return ranks
