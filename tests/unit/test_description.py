"""What a version says about itself: the schema, and sentences that name the field at fault."""

import json
import re
from pathlib import Path

import pytest
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.versions.description import DESCRIPTION_FILE, SCHEMA_FILE, Description, check
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
LABELS = [{"id": "c1", "name": "red dog"}, {"id": "c2", "name": "green dog", "name_zh": "绿犬"}]
GROUP = {"id": "a", "name": "a", "name_zh": "", "members": ["c1", "c2"]}


def described(folder: Path, text: str) -> Path:
    file = folder / DESCRIPTION_FILE
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    return folder


def test_the_schema_is_one_and_describes_every_field_as_the_readme_does() -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    text = (
        (ROOT / "docs" / "models.md")
        .read_text(encoding="utf-8")
        .partition("## Describing a version")[2]
    )
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text.partition("\n## ")[0], re.M)
    assert dict(rows) == {name: each["description"] for name, each in schema["properties"].items()}
    assert all(dict(rows).values())


def test_the_fields_are_read_and_what_is_not_known_is_kept(tmp_path) -> None:
    assert Description.read(tmp_path) == Description()
    fields = {
        "labels": LABELS,
        "input_size": [8, 9],
        "decision": {"dog_threshold": 0.5},
        "my_own": 1,
    }
    description = Description.read(described(tmp_path, json.dumps(fields)))
    assert (description.labels, description.input_size) == (tuple(LABELS), (8, 9))
    assert description.levels.decision == Decision(dog=0.5)
    assert description.raw["my_own"] == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"labels": [*LABELS, {"id": "c3"}]}, "labels[2]: 'name' is a required property"),
        ({"labels": [{"name": "red"}]}, "labels[0]: 'id' is a required property"),
        ({"labels": ["red"]}, "labels[0]: 'red' is not of type 'object'"),
        ({"labels": []}, "labels: [] should be non-empty"),
        (
            {"decision": {"dog_threshold": 2}},
            "decision.dog_threshold: 2 is greater than the maximum of 1",
        ),
        (
            {"decision": {"confident_threshold": "high"}},
            "decision.confident_threshold: 'high' is not of type 'number'",
        ),
        (
            {"decision": {"confident_threshold": 0.6, "group_threshold": 0.5}},
            "decision: 'set_threshold' is a dependency of 'group_threshold'",
        ),
        (
            {"decision": {"unknown_threshold": 1.5}},
            "decision: 'group_threshold' is a dependency of 'unknown_threshold'",
        ),
        (
            {"groups": [{**GROUP, "size": 2}]},
            "groups[0]: Additional properties are not allowed ('size' was unexpected)",
        ),
        (
            {"groups": [{"id": "a", "name": "a", "name_zh": ""}]},
            "groups[0]: 'members' is a required property",
        ),
        ({"input_size": [299]}, "input_size: [299] is too short"),
        ({"input_size": [0, 299]}, "input_size[0]: 0 is less than the minimum of 1"),
        ({"input_range": [0, "white"]}, "input_range[1]: 'white' is not of type 'number'"),
        ([], "[] is not of type 'object'"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_wrong(fields, said) -> None:
    with pytest.raises(ValueError, match=re.escape(f"the file: {said} (description.schema.json")):
        check(fields, "the file")


def test_a_version_whose_description_is_no_json_fails_with_its_place(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"dogsnap.json is no JSON: .*line 1 column 2"):
        Description.read(described(tmp_path, "{"))
