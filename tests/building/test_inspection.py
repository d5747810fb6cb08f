"""Inspection: the signatures as saved_model_cli prints them, the nodes of the graph, and where one would merge."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf
from dogsnap.exporting.inspection import InspectionError, meta_graphs, version_folder
from dogsnap.exporting.merging.merge import Options, merge
from support.command_line import dogsnap, refused
from support.exported import contents_of, export
from support.forked import printed_by
from support.tiny_models import half_plus_two_of_examples


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Iterator[Path]:
    """A model with version 1, exported, and version 2, merged, which no command changes."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    merge(export(folder), Options())
    before = contents_of(folder)
    yield folder
    assert contents_of(folder) == before


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> Path:
    return half_plus_two_of_examples(tmp_path_factory.mktemp("half_plus_two") / "1")


def by_saved_model_cli(*flags: object) -> str:
    """What TensorFlow's own tool prints."""
    return printed_by("tensorflow.python.tools.saved_model_cli", "show", *flags)


def of_ragged(folder: Path) -> Path:
    """A TensorFlow 1 export with an image input, and a signature of each kind of input that is no tensor."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        image = v1.placeholder(tf.float32, [None, 8, 8, 3], "image")
        ragged = v1.ragged.placeholder(tf.float32, 1, name="ragged")
        sparse = v1.sparse_placeholder(tf.float32, [None, 3], name="sparse")
        means = tf.reduce_mean(image, [1, 2])
        of_each = {
            "serving_default": (image, means),
            "ragged": (ragged, tf.reduce_sum(ragged, 1)),
            "sparse": (sparse, v1.sparse_reduce_sum(sparse, 1)),
        }
        signatures = {}
        for name, (given, answer) in of_each.items():
            inputs = {"x": v1.saved_model.build_tensor_info(given)}
            outputs = {"y": v1.saved_model.build_tensor_info(answer)}
            signatures[name] = v1.saved_model.build_signature_def(inputs, outputs, name)
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return folder


def test_a_signature_with_a_ragged_or_sparse_input_leaves_the_others_to_be_shown_and_merged(
    tmp_path,
) -> None:
    folder = of_ragged(tmp_path / "odd" / "1")
    shown = dogsnap("show", folder, "--nodes").output
    assert 'Decoding would be merged in front of input "x"' in shown
    assert "signature_def['ragged']" in shown
    assert merge(folder, Options()).name == "2"


def test_the_nodes_of_a_model_of_tensorflow_1_are_shown_without_warnings(tmp_path) -> None:
    command = [
        Path(sys.executable).with_name("dogsnap"),
        "show",
        of_ragged(tmp_path / "odd" / "1"),
        "--nodes",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert shown.stderr == ""


@pytest.mark.parametrize("version", ["1", "2", "foreign"])
def test_signatures_are_printed_letter_by_letter_as_saved_model_cli_does(
    model, foreign, version
) -> None:
    folder = foreign if version == "foreign" else model / version
    everything = by_saved_model_cli("--all", "--dir", folder)
    expected = everything.split("The MetaGraph with tag set")[0].rstrip(
        "\n"
    )  # operations and functions follow
    assert "signature_def['serving_default']:" in expected
    assert (
        dogsnap("show", folder).output
        == dogsnap("show", "--dir", folder, "--all").output
        == expected + "\n"
    )


@pytest.mark.parametrize(
    "flags",
    [[], ["--tag_set", "serve"], ["--tag_set", "serve", "--signature_def", "regress_x_to_y"]],
    ids=len,
)
def test_the_flags_of_saved_model_cli_print_what_it_prints(foreign, flags) -> None:
    assert dogsnap("show", "--dir", foreign, *flags).output == by_saved_model_cli(
        "--dir", foreign, *flags
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "expected the folder of a version or of a model, as MODEL_DIR or by --dir"),
        ("--signature_def x --dir .", "--signature_def needs --tag_set"),
        ("tiny/1 --tag_set gpu", "has no graph with the tags gpu; available: serve"),
        (
            "tiny/1 --tag_set serve --signature_def x",
            "has no signature x; available: __saved_model_init_op, scores, serving_default",
        ),
        (".", "holds neither a saved_model.pb nor folders of versions"),
        ("tiny --version 9", "has no version 9; available: 1, 2"),
        ("nowhere", "holds neither a saved_model.pb nor folders of versions"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence_with_what_there_is(
    model, monkeypatch, arguments, said
) -> None:
    monkeypatch.chdir(model.parent)
    refused(dogsnap("show", *arguments.split()), said)


def test_the_folder_of_a_model_means_its_largest_version_unless_one_is_named(model) -> None:
    assert version_folder(model) == model / "2"
    assert version_folder(model, 1) == model / "1"
    assert version_folder(model / "1") == model / "1"
    assert dogsnap("show", model, "--version", 1).output == dogsnap("show", model / "1").output


@pytest.mark.parametrize("contents", [b"\xff\xff\xff no protocol buffer", b""])
def test_a_damaged_file_is_said_to_be_damaged(tmp_path, contents) -> None:
    with pytest.raises(InspectionError, match=r"holds no saved_model\.pb"):
        meta_graphs(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(contents)
    with pytest.raises(InspectionError, match=r"saved_model\.pb is (empty|no SavedModel)"):
        meta_graphs(tmp_path)
    assert dogsnap("show", tmp_path).exit_code == 1


def test_nodes_are_listed_with_operation_and_shape_through_every_function(model) -> None:
    lines = dogsnap("show", model / "1", "--nodes").output.splitlines()
    (entry,) = [line for line in lines if line.split()[:1] == ["serving_default_image"]]
    assert entry.split(maxsplit=2) == ["serving_default_image", "Placeholder", "(-1, 16, 16, 3)"]
    (features,) = [line for line in lines if re.search(r"/features_1/Mean +Mean ", line)]
    assert features.endswith("(-1, 16)")
    operations = {line.split()[1] for line in lines if line.startswith("  ")}
    assert {"Placeholder", "StatefulPartitionedCall", "Conv2D", "Softmax", "Sigmoid"} <= operations
    assert not {"SaveV2", "RestoreV2"} & operations


def test_the_nodes_of_a_merged_version_show_its_decoding_and_the_heading_of_a_part_counts_its_nodes(
    model,
) -> None:
    operations = set()
    shown = dogsnap("show", model / "2", "--nodes").output
    parts = re.findall(r"^.*: (\d+) nodes\n((?:  .*\n)+)", shown, re.MULTILINE)
    for count, nodes in parts:
        assert int(count) == len(nodes.splitlines())
        operations |= {line.split()[1] for line in nodes.splitlines()}
    assert {"DecodeBase64", "DecodeImage", "Conv2D", "TopKV2"} <= operations


def test_with_nodes_the_place_to_merge_at_is_suggested(model) -> None:
    last = dogsnap("show", model, "--version", 1, "--nodes").output.splitlines()[-1]
    assert last == (
        'Decoding would be merged in front of input "image" (float32 (-1, 16, 16, 3)) of signature "serving_default".'
    )
    last = dogsnap("show", model, "--nodes").output.splitlines()[-1]
    assert last.startswith("No decoding can be merged in as it is: there is no image input")
