"""A network with a sigmoid head of five classes: merged, asked, evaluated, compared, and refused where it does not fit."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from dogsnap.exporting.merging.merge import MergeError, merge
from dogsnap.exporting.merging.options import Options
from dogsnap.training.evaluation.label_sets import average_precision
from support.command_line import dogsnap, output_of, refused
from support.several_labels import LABELS, network, picture


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Version 1, of logits, 2, which is merged, and 4, which never sees blue."""
    folder = tmp_path_factory.mktemp("models") / "colours"
    for number, blue in ((1, 0.0), (3, -100.0)):
        network(blue).export(folder / str(number), verbose=False)
        merge(folder / str(number), Options(labels=LABELS, sigmoid=True))
    return folder


SHOWN = [
    "red|blue",
    "green",
    "",
    "red|green|blue",
    "blue",
    "red",
    "green|blue",
    "bright|red|green|blue",
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """A table of photos with none to four labels each."""
    folder = tmp_path_factory.mktemp("photos")
    lines = ["image,label"]
    for number, shown in enumerate(SHOWN):
        picture(shown).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{shown}")
    (folder / "truth.csv").write_text("\n".join(lines) + "\n")
    return folder


def ask(model: Path, photo: Path, version: int = 2) -> dict:
    where = ("--model-base-path", model, "--version", version)
    return json.loads(dogsnap("predict", photo, *where).stdout)


def test_an_answer_lists_all_labels_above_their_own_thresholds_or_none(model, photos):
    answer = ask(model, photos / "0.png")
    assert (answer["level"], answer["confident"], answer["set"]) == ("labels", True, None)
    assert sorted(label["name"] for label in answer["labels"]) == ["blue", "red"]
    assert len(answer["breeds"]) == 5
    assert "note" not in answer
    none = ask(model, photos / "2.png")
    assert (none["level"], none["confident"], none["labels"]) == ("labels", False, [])
    # Its own threshold of 0.9 is not reached by three colours at once.
    assert "bright" not in [label["name"] for label in ask(model, photos / "3.png")["labels"]]
    assert "bright" in [label["name"] for label in ask(model, photos / "7.png")["labels"]]


def test_evaluate_takes_several_labels_a_photo_and_reports_the_mean_average_precision(
    model, photos, tmp_path
):
    said = output_of(
        dogsnap("evaluate", model / "2", "--data", photos / "truth.csv", "--save", tmp_path)
    )
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert scores["mean_average_precision"] == scores["all_labels_right"] == 1.0
    assert [each["photos"] for each in scores["classes"]] == [4, 4, 5, 1, 0]
    assert "mean average precision      100.0%" in said
    worse = output_of(dogsnap("evaluate", model / "4", "--data", photos / "truth.csv"))
    assert "blue: 5, " in worse
    assert "all labels of a photo right 37.5%" in worse


def test_labels_stand_in_several_columns_or_in_one_for_each_class(model, photos):
    first, marked = ["image,label,label_2"], ["image,red,green,blue"]
    for number, shown in enumerate(SHOWN[:3]):
        names = [*shown.split("|"), ""][:2]
        first.append(",".join([f"{number}.png", *names]))
        marks = [str(int(name in shown.split("|"))) for name in ("red", "green", "blue")]
        marked.append(",".join([f"{number}.png", *marks]))
    first[1] += ",a comma too many"
    for name, lines in (("columns.csv", first), ("marks.csv", marked)):
        (photos / name).write_text("\n".join(lines) + "\n")
        said = output_of(dogsnap("evaluate", model / "2", "--data", photos / name))
        assert "photos                      3" in said
        assert "all labels of a photo right 100.0%" in said


def test_compare_tells_which_labels_differ_and_the_gate_ends_with_1(model, photos, tmp_path):
    given = ("compare", 2, 4, "--model", model, "--data", photos / "truth.csv")
    said = output_of(dogsnap(*given, "--json", tmp_path / "found.json"))
    result = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert result["agreement"] == 3 / 8
    assert result["accuracy"] == [1.0, 3 / 8]
    first, second = result["mean_average_precision"]
    assert (first, second < 1) == (1.0, True)
    assert {"names": ["blue", "none"], "right": "blue"}.items() <= next(
        each for each in result["differing"] if each["photo"].endswith("4.png")
    ).items()
    assert "same labels                 37.50%" in said
    assert "photos with another answer" in said
    refused(dogsnap(*given, "--max-drop", 1), "points worse than the first")


def test_a_sigmoid_head_that_is_merged_for_one_class_a_photo_is_told(tmp_path):
    image = keras.Input((32, 32, 3))
    head = keras.layers.Dense(len(LABELS), activation="sigmoid")
    model = keras.Model(image, head(keras.layers.GlobalAveragePooling2D()(image)))
    model.export(tmp_path / "m" / "1", verbose=False)
    said: list[str] = []
    merge(tmp_path / "m" / "1", Options(labels=LABELS), said.append)
    assert any("not 1: where it may show several of the classes" in line for line in said)
    said.clear()
    merge(tmp_path / "m" / "1", Options(labels=LABELS, independent=True), said.append)
    assert not any("not 1" in line for line in said)


def test_what_does_not_fit_independent_classes_is_refused_in_a_sentence(model, photos, tmp_path):
    network().export(tmp_path / "m" / "1", verbose=False)
    one = tmp_path / "m" / "1"
    with pytest.raises(MergeError, match="--softmax is for one class a photo"):
        Options(labels=LABELS, softmax=True, independent=True)
    with pytest.raises(MergeError, match="add --sigmoid if they are logits"):
        merge(one, Options(labels=LABELS, independent=True))
    with pytest.raises(ValueError, match="levels of an answer need labels as well"):
        merge(one, Options(sigmoid=True))
    decision = {"decision": {"confident_threshold": 0.6}}
    with pytest.raises(ValueError, match="independent classes have `threshold`"):
        merge(one, Options(labels=LABELS, sigmoid=True, description=decision))
    assert [path.name for path in one.parent.iterdir()] == ["1"]
    refused(
        dogsnap("evaluate", model / "2", "--data", photos / "truth.csv", "--precision", 0.9),
        "are for one class a photo",
    )


def test_average_precision_is_that_of_its_definition_and_equal_scores_are_one_step():
    shown = np.array([True, False, True, False])
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.1]), shown) == pytest.approx(
        (1 + 2 / 3) / 2
    )
    assert average_precision(np.full(4, 0.5), shown) == 0.5
