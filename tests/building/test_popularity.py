"""Of two breeds that look alike, the more common one is the more probable."""

import json
from pathlib import Path

import numpy as np
import pytest
from dogsnap.networks.popularity import STRENGTH
from lab.prior import log_prior

MODELS = Path(__file__).parents[2] / "models"
LABELS = [{"id": "foxhound"}, {"id": "beagle"}, {"id": "dhole"}]


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    file = tmp_path / "popularity.json"
    file.write_text(json.dumps({"ranks": {"beagle": 7, "foxhound": 194, "poodle": 6}}))
    return file


def test_the_log_probability_falls_evenly_with_the_rank_and_a_breed_without_one_comes_last(
    ranks: Path,
) -> None:
    foxhound, beagle, dhole = log_prior(LABELS, ranks)
    assert foxhound + beagle + dhole == pytest.approx(0, abs=1e-5)
    assert beagle - foxhound == pytest.approx(STRENGTH * (194 - 7), rel=1e-5)
    assert foxhound - dhole == pytest.approx(STRENGTH, rel=1e-3)


def test_breeds_none_of_which_has_a_rank_and_all_without_ranks_are_equally_common(
    ranks: Path, tmp_path: Path
) -> None:
    np.testing.assert_array_equal(log_prior([{"id": "red"}, {"id": "green"}], ranks), np.zeros(2))
    np.testing.assert_array_equal(log_prior(LABELS, tmp_path / "none.json"), np.zeros(3))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(
            (text, r"popularity\.json: expected")
            for text in ("[]", "{}", '{"ranks": [1, 2]}', "no JSON")
        ),
        ('{"ranks": {"beagle": "first"}}', r"popularity\.json: expected"),
        *(
            (
                f'{{"ranks": {{"poodle": 6, "beagle": {rank}}}}}',
                "expected ranks from 1 on, received .* for beagle",
            )
            for rank in ("NaN", "0", "-3", "Infinity")
        ),
    ],
)
def test_a_file_of_another_kind_or_with_an_impossible_rank_is_refused_in_a_sentence(
    tmp_path, text, words
) -> None:
    (tmp_path / "popularity.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        log_prior(LABELS, tmp_path / "popularity.json")


def test_the_shipped_ranks_are_of_the_breeds_of_the_shipped_network() -> None:
    labels = json.loads((MODELS / "inception_v3" / "labels.json").read_text(encoding="utf-8"))
    ranks = json.loads((MODELS / "popularity.json").read_text(encoding="utf-8"))["ranks"]
    taught = json.loads((MODELS / "inception_v3" / "taught.json").read_text(encoding="utf-8"))[
        "taught"
    ]
    assert set(ranks) <= {label["id"] for label in (*labels, *taught)}
    assert not {"n02115641", "n02115913", "n02116738"} & set(ranks)  # the wild ones
    names = (label["name"] for label in labels)
    by_name = dict(zip(names, log_prior(labels, MODELS / "popularity.json"), strict=True))
    assert by_name["beagle"] > by_name["English foxhound"]
    assert by_name["Siberian husky"] > by_name["Alaskan malamute"] > by_name["Eskimo dog"]
