"""`dogsnap evaluate` and `dogsnap compare` on somebody's own Keras network, and the gate that CI asks."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.training.evaluation.labelled_photos import UNKNOWN, find_examples
from PIL import Image
from support import own_models
from support.command_line import dogsnap, output_of, refused


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Versions 1 and 2, the same worse as 3 and 4, and with one class more in another order as 5 and 6."""
    folder = tmp_path_factory.mktemp("models") / "shapes"
    own_models.export(folder, 1)
    own_models.export(folder, 3, bias=2.5)
    known = own_models.LABELS[:3]
    own_models.export(folder, 5, labels=[*known, {"id": "s9", "name": "square new"}])
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return own_models.make_photos(tmp_path_factory.mktemp("photos"), 400, faint=40)


def test_a_version_is_measured_by_class_with_confusion_and_time(model, photos, tmp_path) -> None:
    saved = tmp_path / "saved"
    said = output_of(dogsnap("evaluate", model / "4", "--data", photos, "--save", saved))
    assert f"{model / '4'} on 400 photos of {photos}" in said
    assert "top-1                       90.00%" in said
    assert re.search(r"median time a photo +\d+\.\d ms", said)
    assert "square red: right 60.0% of 100 photos, mostly taken for square green" in said
    assert re.search(r"square red +60 +40 +0 +0", said)
    scores = json.loads((saved / "scores.json").read_text(encoding="utf-8"))
    assert scores["confusion"][0] == [60, 40, 0, 0]
    assert scores["classes"][1] == {
        "id": "s2",
        "name": "square green",
        "photos": 100,
        "recall": 1.0,
        "precision": round(100 / 140, 4),
        "taken_for": "",
    }
    rows = list(csv.reader((saved / "confusion.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[1] == ["s1", "60", "40", "0", "0"]
    assert (saved / "classes.csv").read_text(encoding="utf-8").startswith("id,name,photos,")
    assert np.asarray(Image.open(saved / "confusion.png")).shape[2] == 3


def test_classes_are_told_by_folder_name_by_index_and_by_a_table(model, tmp_path) -> None:
    named = own_models.make_photos(tmp_path / "named", 8, by_name=True)
    assert "top-1                       100.00%" in output_of(
        dogsnap("evaluate", model / "2", "--data", named)
    )
    rows = [(path.relative_to(named), path.parent.name) for path in named.rglob("*.png")]
    lines = [f"{path},{name.upper()}" for path, name in rows]
    table = named / "truth.csv"
    table.write_text("\ufeffimage,label\n" + "\n".join([*lines, "a.png,square pink"]) + "\n")
    said = output_of(dogsnap("evaluate", model / "2", "--data", table))
    assert "on 8 photos" in said
    assert "1 photos show no known class: square pink (1)" in said
    index = [f"s{number}\t{path}" for number, (path, _) in enumerate(sorted(rows)[:1], 1)]
    (named / "index.tsv").write_text("breed\tphoto\n" + "\n".join(index) + "\n")
    assert "on 1 photos" in output_of(dogsnap("evaluate", model / "2", "--data", named))


def test_a_table_with_labels_may_have_blanks_and_other_columns_and_accents_apart(tmp_path) -> None:
    labels = [{"id": "s1", "name": "red"}, {"id": "s2", "name": "Cafe\u0301"}]
    table = tmp_path / "truth.csv"
    table.write_text("id,image ,label ,fold\n1,a.png,s1 ,1\n2,b.png ,Caf\u00e9,1\n3,c.png,s2,0\n")
    said: list[str] = []
    found = find_examples(table, None, labels, said.append)
    assert [(each.path.name, each.breed) for each in found] == [
        ("a.png", 0),
        ("b.png", 1),
        ("c.png", 1),
    ]
    assert not said


def test_photos_in_folders_within_that_of_a_class_show_it(tmp_path) -> None:
    labels = [{"id": "s1", "name": "red"}, {"id": "s2", "name": "blue"}]
    for name in ("red/2025/a.png", "red/b.png", "val/s2/c.png", "green/old/d.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    said: list[str] = []
    found = find_examples(tmp_path, None, labels, said.append)
    assert {each.path.name: each.breed for each in found} == {
        "a.png": 0,
        "b.png": 0,
        "c.png": 1,
        "d.png": UNKNOWN,
    }
    assert said == ["1 photos show no known class: old (1)"]


def test_what_cannot_be_measured_is_refused_in_a_sentence(model, photos, tmp_path) -> None:
    refused(
        dogsnap("evaluate", model / "1", "--data", photos),
        f"has no labels; `dogsnap merge {model / '1'} --labels FILE`",
    )
    source = shutil.copytree(model / "1", tmp_path / "shapes" / "1")
    merged = merge(source, Options())
    said = f"{merged} has no labels; `dogsnap merge {source} --labels FILE`"
    refused(dogsnap("evaluate", merged, "--data", photos), said)
    refused(dogsnap("evaluate", model, "--data", photos), "holds no saved_model.pb")
    refused(
        dogsnap("evaluate", model / "2", "--data", photos, "--not-dogs", photos),
        "--not-dogs: ",
    )
    others = own_models.make_photos(tmp_path / "photos", 1)
    (others / "s1").rename(others / "cats")
    refused(
        dogsnap("evaluate", model / "2", "--data", others),
        "none of 1 photos shows a class that the version knows; expected folders or labels named by id or name: s1 or square red",
    )
    (tmp_path / "t.csv").write_text("file,class\na,b\n")
    refused(dogsnap("evaluate", model / "2", "--data", tmp_path / "t.csv"), "image,label")


def test_the_gate_ends_with_1_for_a_worse_version_and_with_0_for_the_same(model, photos) -> None:
    gate = ("--model", model, "--data", photos, "--max-drop", 1)
    said = refused(dogsnap("compare", 2, 4, *gate), "points worse than the first (95 %)")
    assert "version 4 is worse by     10.00 points, at most 13.3" in said
    assert "only one is right           40  0" in said
    assert "p = 1.82e-12" in said
    assert "within --max-drop 1" in output_of(dogsnap("compare", 2, 2, *gate, "--photos", 20))
    assert "within --max-drop 1" in output_of(dogsnap("compare", 4, 2, *gate))


def test_too_few_photos_for_the_gate_are_told_how_many_can_show_it(model, photos) -> None:
    """Three of the four classes are in both versions: 300 photos, all answered alike."""
    gate = ("--model", model, "--data", photos, "--max-drop", 1)
    refused(dogsnap("compare", 2, model / "6", *gate), "at least 368 photos can show that")


def test_classes_of_one_version_are_named_and_counted_apart(model, photos, tmp_path) -> None:
    file = tmp_path / "measured.json"
    said = output_of(dogsnap("compare", 2, 6, "--model", model, "--data", photos, "--json", file))
    assert "only version 2 knows        square grey: right on 100 of 100 photos" in said
    assert "only version 6 knows        square new: right on 0 of 0 photos" in said
    result = json.loads(file.read_text(encoding="utf-8"))
    assert (result["labelled"], result["accuracy"]) == (300, [1.0, 1.0])
    assert result["agreement"] == 0.75


def test_the_page_shows_the_photos_that_differ_and_fetches_nothing(model, photos, tmp_path) -> None:
    page = tmp_path / "page.html"
    output_of(dogsnap("compare", 2, 4, "--model", model, "--data", photos, "--page", page))
    text = page.read_text(encoding="utf-8")
    assert text.count('src="data:image/jpeg;base64,') == text.count("<li>") == 40
    assert 'class="right">version 2: square red' in text
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)
