"""The tables of the model card: measured by the command, written between two lines, the same as in measured.json."""

import json
from pathlib import Path

import coloured_dogs
import pytest
import spotting
from click.testing import CliRunner, Result
from photos import make_data_set, make_frames

from backend.building.merging.merge import Options, merge
from backend.cli import main
from backend.evaluation import card
from backend.evaluation.exported_version import ExportedVersion

BOXES = {"red": coloured_dogs.RED, "blue": coloured_dogs.BLUE, "green": coloured_dogs.GREEN}
ROOT = Path(__file__).parents[2]
DECISION = {
    **{"dog_threshold": 0.1, "confident_threshold": 0.9},
    **{"group_threshold": 0.8, "set_threshold": 0.1, "unknown_threshold": 0.0},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with versions 1 to 3, a card, and the folders of photos."""
    root = tmp_path_factory.mktemp("root")
    spotting.versions(spotting.export(root / "tiny"))
    for file in (root / "tiny").glob("*/assets.extra/dogsnap.json"):
        description = json.loads(file.read_text(encoding="utf-8"))
        scores = {**description["scores"], "weights": "a" * 64}
        file.write_text(json.dumps({**description, "scores": scores, "decision": DECISION}), encoding="utf-8")
        (file.parent / "SHA256SUMS").unlink()  # which does not know the thresholds
    make_data_set(root / "stanford_dogs", per_breed=2, test_per_breed=2)
    make_frames(root / "stanford_dogs", root / "stanford_dogs_frames")
    for name in ("web_dogs", "full_frame_dogs", "not_dogs", "other_dogs"):
        make_data_set(root / name, per_breed=1, test_per_breed=1)
    (root / "card.md").write_text(
        f"Before.\n\n{card.BEGIN}\nfigures of before\n{card.END}\n\nAfter.\n", encoding="utf-8"
    )
    return root


def renew(root: Path, file: Path) -> Result:
    arguments = ["evaluate", root / "tiny" / "2", "--data", root, "--card", file]
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_the_command_measures_all_lists_and_renews_the_tables_alone(root: Path) -> None:
    done = renew(root, root / "card.md")
    assert done.exit_code == 0, done.output
    measured, text = (
        (root / "measured.json").read_text(encoding="utf-8"),
        (root / "card.md").read_text(encoding="utf-8"),
    )
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "figures of before" not in text
    assert card.as_tables(json.loads(measured)) in text
    photos = {name: scores["photos"] for name, scores in json.loads(measured)["3"]["lists"].items()}
    assert photos == dict(zip(card.LISTS, (6, 6, 6, 6), strict=True))
    assert renew(root, root / "card.md").exit_code == 0
    assert (root / "card.md").read_text(encoding="utf-8") == text


def test_a_card_without_a_place_for_the_tables_is_refused_before_the_work(root: Path, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("A card.\n")
    done = renew(root, tmp_path / "card.md")
    assert done.exit_code == 1
    assert f"expected the lines {card.BEGIN} and {card.END}" in done.output
    assert "photo" not in done.output


def test_photos_of_several_dogs_are_judged_by_the_boxes_that_are_told(tmp_path: Path) -> None:
    one = coloured_dogs.export(tmp_path / "tiny")
    version = ExportedVersion.load(merge(one, Options(second_pass=True)))
    boxes = {
        name: [each / side for each, side in zip(box, (320, 240, 320, 240), strict=True)] for name, box in BOXES.items()
    }
    rows = [("two", "red blue"), ("one", "blue"), ("missed", "red blue green")]
    lines = ["photo\tdogs\tboxes\tdifficult"]
    for name, dogs in rows:
        (tmp_path / f"{name}.png").write_bytes(getattr(coloured_dogs, "ONE" if name == "one" else "TWO"))
        there = dogs.split()
        told = ";".join(",".join(map(str, boxes[each])) for each in there)
        lines.append(f"{name}.png\t{len(there)}\t{told}\t{';'.join('0' * len(there))}")
    (tmp_path / "boxes.tsv").write_text("\n".join(lines) + "\n")
    found = card.every_dog(version, tmp_path)
    assert found == {
        **{"photos": 3, "several_told": 1.0, "one_told": 1.0, "none_told": None},
        **{"recall": 0.8, "precision": 1.0},
    }


def test_near_relatives_are_no_wrong_answers() -> None:
    taken = [
        {"is": "english_mastiff", "level": "breed", "taken_for": "bullmastiff", "times": 7},
        {"is": "english_mastiff", "level": "breed", "taken_for": "beagle", "times": 1},
        {"is": "shiba_inu", "level": "group", "taken_for": "spitz", "times": 2},
    ]
    assert card.surely_wrong(taken, ["dog"] * 10) == 0.1


def test_the_card_holds_what_was_measured_of_the_weights_that_are_here() -> None:
    measured = json.loads((ROOT / "models" / "measured.json").read_text(encoding="utf-8"))
    assert card.as_tables(measured) in (ROOT / "models" / "README.md").read_text(encoding="utf-8")
    scores = json.loads((ROOT / "models" / "inception_v3" / "scores.json").read_text(encoding="utf-8"))
    taught = json.loads((ROOT / "models" / "inception_v3" / "taught.json").read_text(encoding="utf-8"))["scores"]
    decisions = {"2": scores["calibration"], "3": taught["second_pass"]["decision"]}
    for number, each in measured.items():
        assert each["weights"] == scores["weights"], "another training: make card DATA=..."
        assert each["decision"].items() <= decisions[number].items(), "other thresholds: make card DATA=..."


def test_the_card_says_how_often_each_breed_that_was_taught_is_named_right() -> None:
    stored = json.loads((ROOT / "models" / "inception_v3" / "taught.json").read_text(encoding="utf-8"))
    taught = stored["scores"]["second_pass"]["validation"]["taught"]
    names = {each["id"]: each["name"] for each in stored["taught"]}
    section = (ROOT / "models" / "README.md").read_text(encoding="utf-8").split("## Breeds that were taught")[1]
    section = " ".join(section.split("##")[0].split())
    mean = sum(taught["recall"].values()) / len(names)
    said = ", ".join(
        f"{names[breed]} {100 * share:.0f}"
        for breed, share in sorted(taught["recall"].items(), key=lambda each: -each[1])
    )
    assert f"So {100 * taught['top1']:.0f} % are named right, {100 * mean:.0f} % as the mean: {said}." in section
    assert f"on {taught['photos']} photos" in section


def test_the_card_is_short() -> None:
    assert len((ROOT / "models" / "README.md").read_bytes()) <= 10_000
