"""The tables of the model card: measured by the command, written between two lines, the same as in measured.json."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.training.evaluation.exported_version import ExportedVersion
from lab import card, relatives
from support import coloured_dogs, spotting
from support.command_line import lab, output_of, refused
from support.photos import make_data_set, make_frames

BOXES = {"red": coloured_dogs.RED, "blue": coloured_dogs.BLUE, "green": coloured_dogs.GREEN}
DECISION = {
    **coloured_dogs.DECISION,
    "group_threshold": 0.8,
    "set_threshold": 0.1,
    "unknown_threshold": 0.0,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with versions 1 to 3, a card, and the folders of photos."""
    root = tmp_path_factory.mktemp("root")
    spotting.versions(spotting.export(root / "tiny"))
    for file in (root / "tiny").glob("*/assets.extra/dogsnap.json"):
        description = json.loads(file.read_text(encoding="utf-8"))
        scores = {**description["scores"], "weights": "a" * 64}
        file.write_text(
            json.dumps({**description, "scores": scores, "decision": DECISION}), encoding="utf-8"
        )
        (file.parent / "SHA256SUMS").unlink()  # which does not know the thresholds
    make_data_set(root / "stanford_dogs", per_breed=2, test_per_breed=2)
    make_frames(root / "stanford_dogs", root / "stanford_dogs_frames")
    for name in ("web_dogs", "full_frame_dogs", "not_dogs", "other_dogs"):
        make_data_set(root / name, per_breed=1, test_per_breed=1)
    (root / "card.md").write_text(
        f"Before.\n\n{card.BEGIN}\nfigures of before\n{card.END}\n\nAfter.\n"
    )
    return root


def renew(root: Path, file: Path) -> Result:
    return lab("card", root / "tiny", "--data", root, "--card", file)


def test_the_command_measures_all_lists_and_renews_the_tables_alone(root: Path) -> None:
    output_of(renew(root, root / "card.md"))
    measured = json.loads((root / "measured.json").read_text(encoding="utf-8"))
    text = (root / "card.md").read_text(encoding="utf-8")
    tables = card.as_tables(measured)
    assert re.fullmatch(
        rf"Before\.\s+{card.BEGIN}\s+{re.escape(tables)}\s+{card.END}\s+After\.\n", text
    )
    photos = {name: scores["photos"] for name, scores in measured["3"]["lists"].items()}
    assert photos == dict.fromkeys(card.LISTS, 6)


def test_a_card_without_a_place_for_the_tables_is_refused_before_the_work(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "card.md").write_text("A card.\n")
    done = renew(root, tmp_path / "card.md")
    refused(done, f"expected the lines {card.BEGIN} and {card.END}")
    assert "photo" not in done.output


def test_photos_of_several_dogs_are_judged_by_the_boxes_that_are_told(tmp_path: Path) -> None:
    one = coloured_dogs.export(tmp_path / "tiny")
    version = ExportedVersion.load(merge(one, Options(second_pass=True)))
    boxes = {
        name: ",".join(map(str, np.array(box) / (320, 240, 320, 240)))
        for name, box in BOXES.items()
    }
    lines = ["photo\tdogs\tboxes\tdifficult"]
    for name, dogs in (("two", "red blue"), ("one", "blue"), ("missed", "red blue green")):
        (tmp_path / f"{name}.png").write_bytes(
            coloured_dogs.ONE if name == "one" else coloured_dogs.TWO
        )
        there = dogs.split()
        told = ";".join(boxes[each] for each in there)
        lines.append(f"{name}.png\t{len(there)}\t{told}\t{';'.join('0' * len(there))}")
    (tmp_path / "boxes.tsv").write_text("\n".join(lines) + "\n")
    photos = {"photos": 3, "several_told": 1.0, "one_told": 1.0, "none_told": None}
    assert card.every_dog(version, tmp_path) == {**photos, "recall": 0.8, "precision": 1.0}


def test_the_overlap_of_the_boxes_is_measured_where_boxes_are_known(tmp_path: Path) -> None:
    frames = make_frames(make_data_set(tmp_path / "dogs", per_breed=2), tmp_path / "frames")
    rows = ["photo\tx0\ty0\tx1\ty1"]
    for number, file in enumerate((frames / "images").rglob("*.png")):
        # Of a colour, on grey, which is what this network finds.
        spot = (20 + number % 10, 30, 60, 75)
        file.write_bytes(spotting.photo([("red hound", spot)], size=(96, 96)))
        sides = [str(side / 96) for side in spot]
        rows.append("\t".join([str(file.relative_to(frames / "images")), *sides]))
    (frames / "boxes.tsv").write_text("\n".join(rows) + "\n")
    version = ExportedVersion.load(spotting.export(tmp_path / "models" / "tiny"))
    boxes = card.score_list(version, frames, "test_list")["boxes"]
    assert boxes["photos"] == 12
    assert boxes["mean_overlap"] > 0.6


def test_near_relatives_are_no_wrong_answers() -> None:
    taken = [
        {"is": "english_mastiff", "level": "breed", "taken_for": "bullmastiff", "times": 7},
        {"is": "english_mastiff", "level": "breed", "taken_for": "beagle", "times": 1},
        {"is": "shiba_inu", "level": "group", "taken_for": "spitz", "times": 2},
    ]
    assert relatives.surely_wrong(taken, 10) == 0.1


MODELS = Path(__file__).parents[2] / "models"


def test_the_card_holds_what_was_measured_of_the_weights_that_are_here_and_is_short() -> None:
    measured, scores, taught = (
        json.loads((MODELS / name).read_text(encoding="utf-8"))
        for name in ("measured.json", "inception_v3/scores.json", "inception_v3/taught.json")
    )
    text = (MODELS / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 10_000
    assert card.as_tables(measured) in text
    decisions = {"2": scores["calibration"], "3": taught["scores"]["second_pass"]["decision"]}
    for number, each in measured.items():
        assert each["weights"] == scores["weights"], "another training: make card DATA=..."
        assert each["decision"].items() <= decisions[number].items(), (
            "other thresholds: make card DATA=..."
        )
    # How often each breed that was taught is named right.
    found = taught["scores"]["second_pass"]["validation"]["taught"]
    names = {each["id"]: each["name"] for each in taught["taught"]}
    section = " ".join(text.split("## Breeds that were taught")[1].split("##")[0].split())
    mean = sum(found["recall"].values()) / len(names)
    recall = sorted(found["recall"].items(), key=lambda each: -each[1])
    said = ", ".join(f"{names[breed]} {100 * share:.0f}" for breed, share in recall)
    assert (
        f"So {100 * found['top1']:.0f} % are named right, {100 * mean:.0f} % as the mean: {said}."
        in section
    )
    assert f"on {found['photos']} photos" in section
