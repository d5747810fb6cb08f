"""`dogsnap compare` of versions that name no classes: two heads, two inputs, texts, numbers and a detector."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.serving.answers.output_agreement import compare_outputs
from support import tiny_models
from support.command_line import dogsnap, output_of, refused
from support.exported import png
from support.tiny_models import save, signature, spec

NUMBERS = (spec(tf.float32, None),)
BOXES = {
    "detection_boxes": np.array([[[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0, 0, 1, 1]]], np.float32),
    "detection_classes": np.array([[1, 2, 1]], np.float32),
    "detection_scores": np.array([[0.9, 0.8, 0.1]], np.float32),
}


def versions(folder: Path, *functions, specs=NUMBERS) -> Path:
    """A version of each function, from 1 on."""
    for number, function in enumerate(functions, start=1):
        save(folder / str(number), serving_default=signature(function, *specs))
    return folder


def lines(folder: Path, *instances: object) -> Path:
    file = folder / "requests.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in instances))
    return file


def compared(model: Path, file: Path, *more: object) -> tuple[str, dict]:
    """What 1 and 2 of a model have in common, as text and as JSON."""
    out = model.parent / "found.json"
    given = ("--model", model, "--requests", file, "--json", out, *more)
    said = output_of(dogsnap("compare", 1, 2, *given))
    return said, json.loads(out.read_text(encoding="utf-8"))


def test_numbers_of_two_heads_agree_within_the_tolerance_and_whole_ones_exactly(tmp_path):
    model = versions(
        tmp_path / "heads",
        lambda x: {"age": x, "count": tf.cast(x, tf.int32)},
        lambda x: {"age": x + 0.05, "count": tf.cast(x + 0.5, tf.int32)},
    )
    file = lines(tmp_path, 10.0, 20.6, 0.1)
    said, result = compared(model, file)
    age, count = result["outputs"]["age"], result["outputs"]["count"]
    assert age["agreement"] == pytest.approx(2 / 3)
    assert age["largest_difference"] == pytest.approx(0.05, abs=1e-5)
    assert count["agreement"] == pytest.approx(2 / 3)
    assert result["agreement"] == pytest.approx(1 / 3)
    assert [each["request"] for each in result["differing"]] == ["line 2", "line 3"]
    assert result["differing"][0]["outputs"] == ["count"]
    assert "66.67% of 3 numbers; difference 5.00e-02 in the mean" in said
    _, wider = compared(model, file, "--tolerance", 0.1)
    assert wider["outputs"]["age"]["agreement"] == 1.0


def test_the_gate_ends_with_1_where_too_few_answers_agree(tmp_path):
    model = versions(tmp_path / "m", lambda x: {"y": x}, lambda x: {"y": x * x})
    given = ("--model", model, "--requests", lines(tmp_path, 0.0, 1.0, 3.0))
    said = refused(dogsnap("compare", 1, 2, *given, "--min-agreement", 0.99), "66.67%")
    assert "of the answers agree, --min-agreement is 0.99" in said
    output_of(dogsnap("compare", 1, 2, *given, "--min-agreement", 0.6))


def test_versions_of_two_inputs_are_compared_and_what_one_refuses_differs(tmp_path):
    tiny_models.several(tmp_path / "m" / "1")
    specs = spec(tf.float32, None, name="a"), spec(tf.int32, None, name="b")
    same = signature(lambda a, b: {"sum": a + tf.cast(b, tf.float32)}, *specs)
    save(tmp_path / "m" / "2", serving_default=same)
    file = lines(tmp_path, {"a": 1.5, "b": 2}, {"a": 0.5, "b": 7})
    _, result = compared(tmp_path / "m", file)
    assert (result["agreement"], list(result["outputs"])) == (1.0, ["sum"])
    tiny_models.half_plus(1, tmp_path / "other" / "3")
    mixed = dogsnap("compare", tmp_path / "m" / "1", tmp_path / "other" / "3", "--requests", file)
    assert "0.00%" in output_of(mixed)
    assert "line 1: refused: " in mixed.output
    back = dogsnap("compare", tmp_path / "other" / "3", tmp_path / "m" / "1", "--requests", file)
    refused(back, "the first version refuses all 2 requests")


def test_texts_agree_where_they_are_equal(tmp_path):
    text = (spec(tf.string, None, name="x"),)
    model = versions(
        tmp_path / "m",
        lambda x: {"said": x},
        lambda x: {"said": tf.strings.lower(x)},
        specs=text,
    )
    _, result = compared(model, lines(tmp_path, "dog", "Dog", "cat", "hen"))
    assert (result["agreement"], result["outputs"]["said"]["kind"]) == (0.75, "texts")


def test_detections_agree_where_boxes_of_one_class_overlap(tmp_path):
    def detector(moved: float):
        boxes = BOXES["detection_boxes"] + np.float32([0, moved, 0, moved])

        def detect(image_bytes):
            rows = tf.shape(image_bytes)[0]
            given = {**BOXES, "detection_boxes": boxes}
            return {name: tf.repeat(tf.constant(value), rows, 0) for name, value in given.items()}

        return detect

    photo = (spec(tf.string, None, name="image_bytes"),)
    functions = [detector(moved) for moved in (0.0, 0.05, 0.3)]
    model = versions(tmp_path / "m", *functions, specs=photo)
    (tmp_path / "photos").mkdir()
    for number in range(3):
        file = tmp_path / "photos" / f"{number}.png"
        file.write_bytes(png(np.full((8, 8, 3), 90 * number, np.uint8)))
    given = ("--model", model, "--data", tmp_path / "photos")
    said = output_of(dogsnap("compare", 1, 2, *given, "--min-agreement", 1))
    assert "100.00% of 12 boxes" in said
    said = output_of(dogsnap("compare", 1, 3, *given))
    assert "all outputs agree           0.00%" in said
    assert "0.png: detection_boxes" in said


def test_what_cannot_be_compared_is_refused_in_a_sentence(tmp_path):
    model = versions(tmp_path / "m", lambda x: {"y": x}, lambda x: {"z": x})
    file = lines(tmp_path, 1.0)
    run = ("compare", 1, 2, "--model", model)
    refused(dogsnap(*run, "--requests", file), "the versions share no output: y; z")
    refused(dogsnap(*run), "expected one of --data and --requests")
    refused(dogsnap(*run, "--requests", file, "--data", tmp_path), "expected one of --data")
    refused(dogsnap(*run, "--requests", file, "--max-drop", 1), "expected --min-agreement")
    refused(dogsnap("compare", 1, 9, *run[3:], "--requests", file), "9")
    file.write_text("no json")
    refused(dogsnap(*run, "--requests", file), "line 1 of")


def test_a_missing_box_one_of_another_class_and_other_shapes_are_differences():
    fewer = {name: value[:, 1:] for name, value in BOXES.items()}
    (found,) = compare_outputs(BOXES, fewer).values()
    assert (found.values, found.alike, found.agrees.tolist()) == (3, 2, [False])
    other = {**BOXES, "detection_classes": np.array([[3, 2, 1]], np.float32)}
    assert compare_outputs(BOXES, other)["detection_boxes"].alike == 2
    shapes = compare_outputs({"y": np.zeros((2, 3))}, {"y": np.zeros((2, 4))})
    assert shapes["y"].agrees.tolist() == [False, False]
    nan = np.array([np.nan, 1.0])
    assert compare_outputs({"y": nan}, {"y": nan})["y"].agrees.tolist() == [True, True]
