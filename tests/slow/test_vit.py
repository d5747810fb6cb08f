"""Vision transformers: KerasHub's answers from a version that takes base64 text and needs TensorFlow alone, by REST and gRPC."""

import ast
import base64
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import grpc
import h5py
import keras
import keras_hub
import numpy as np
import pytest
import requests
import tensorflow as tf
import tiny_vit
from click.testing import CliRunner, Result
from exported import Loaded, contents_of
from grpc_client import connected, values
from PIL import Image

from backend.building.export import ExportError
from backend.building.inspection import meta_graphs
from backend.building.vit import export_vit, load_classifier
from backend.cli import main
from backend.serving.photos.preprocessing import decode
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions.servable import Servable
from backend.serving.versions.warmup import warm_up

CLIENTS = Path(__file__).parents[1] / "support" / "vit_clients"
PHOTOS = tiny_vit.photos(32)  # as many as a request may have
TEXTS = [base64.urlsafe_b64encode(photo) for photo in PHOTOS]
CLOSE = 1e-4  # in probability


class Vit(Loaded):
    """A version that answers with a label and a confidence."""

    def ask(self, texts: list[bytes]) -> tuple[list[str], np.ndarray]:
        answer = self.serving_default(string_input=tf.constant(texts, tf.string))
        return [label.decode() for label in answer["label"].numpy()], answer["confidence"].numpy()


@pytest.fixture(scope="module")
def preset(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("presets") / "tiny"
    tiny_vit.network().save_to_preset(str(folder))
    return folder


@pytest.fixture(scope="module")
def version(tmp_path_factory, preset) -> Vit:
    """Version 1 of "vit", exported from the preset."""
    return Vit(export_vit(str(preset), tiny_vit.NAMES, tmp_path_factory.mktemp("models") / "vit"))


def nodes_of(folder: Path) -> list[tf.compat.v1.NodeDef]:
    """All nodes of a version, those of its functions included."""
    graph = meta_graphs(folder)[0].graph_def
    return [node for nodes in [graph.node, *(each.node_def for each in graph.library.function)] for node in nodes]


def probabilities_by_keras(task: keras.Model, photos: list[bytes]) -> np.ndarray:
    """Softmax of what the Keras model says after its own preprocessing of the decoded pixels, (n, classes)."""
    pixels = [decode(tf.constant(photo)).numpy().astype(np.float32) for photo in photos]
    logits = np.concatenate([task.predict(image[np.newaxis], verbose=0) for image in pixels])
    return tf.nn.softmax(logits).numpy()


def same_top1(answered: tuple[list[str], np.ndarray], expected: np.ndarray, names: list[str]) -> None:
    labels, confidence = answered
    assert labels == [names[best] for best in expected.argmax(axis=1)]
    np.testing.assert_allclose(confidence, expected.max(axis=1), rtol=0, atol=CLOSE)


def test_it_takes_base64_text_and_gives_a_label_and_a_confidence(version) -> None:
    servable = Servable.load(ServableId("vit", 1), version.folder)
    signature = servable.signature()
    assert signature.method == "tensorflow/serving/predict"
    assert {name: (spec.dtype, spec.shape.as_list()) for name, spec in signature.inputs.items()} == {
        "string_input": (tf.string, [None])
    }
    assert {name: (spec.dtype, spec.shape.as_list()) for name, spec in signature.outputs.items()} == {
        "label": (tf.string, [None]),
        "confidence": (tf.float32, [None]),
    }


def test_the_top_1_is_the_keras_models_with_its_own_preprocessing(version) -> None:
    expected = probabilities_by_keras(tiny_vit.network(), PHOTOS)
    assert len(set(expected.argmax(axis=1))) >= 3
    same_top1(version.ask(TEXTS), expected, tiny_vit.NAMES)


def test_real_photos_get_the_keras_models_top_1(version, data_dir: Path) -> None:
    lines = (data_dir / "stanford_dogs" / "test_list.txt").read_text(encoding="utf-8").split()[::46]
    photos = [(data_dir / "stanford_dogs" / "images" / line).read_bytes() for line in lines]
    assert len(photos) >= 30
    expected = probabilities_by_keras(tiny_vit.network(), photos)
    same_top1(version.ask([base64.b64encode(photo) for photo in photos]), expected, tiny_vit.NAMES)


CHECKPOINTS = {
    "safetensors": tiny_vit.hugging_face,
    "TensorFlow's HDF5": tiny_vit.tensorflow_checkpoint,
}


@pytest.mark.parametrize("written", CHECKPOINTS)
def test_a_hugging_face_checkpoint_answers_as_its_formulas_say(tmp_path, written) -> None:
    """What save_pretrained of TensorFlow writes has no processor: its defaults are taken, and said."""
    weights, said = CHECKPOINTS[written](tmp_path / "checkpoint"), []
    exported = Vit(export_vit(str(tmp_path / "checkpoint"), [], tmp_path / "models" / "vit", report=said.append))
    pictures = [Image.open(io.BytesIO(photo)).convert("RGB") for photo in PHOTOS]
    has_processor = written == "safetensors"
    scale = (tiny_vit.MEAN, tiny_vit.DEVIATION) if has_processor else (np.full(3, 0.5), np.full(3, 0.5))
    expected = tiny_vit.hugging_face_probabilities(weights, pictures, *scale)
    assert len(set(expected.argmax(axis=1))) >= 3
    same_top1(exported.ask(TEXTS), expected, [f"class {number}" for number in range(12)])
    assert len(said) == (not has_processor)
    assert all("no preprocessor_config.json: pixels are scaled to [-1, 1]" in line for line in said)


@pytest.mark.parametrize(
    ("contents", "said"), [(b"no HDF5", "cannot read .*signature"), (None, "holds no ViT; expected what TFViT")]
)
def test_a_tf_model_h5_that_holds_no_vit_is_refused_in_a_sentence(tmp_path, contents, said) -> None:
    tiny_vit.tensorflow_checkpoint(tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / "tf_model.h5"
    file.unlink()
    if contents is None:
        h5py.File(file, "w").close()
    else:
        file.write_bytes(contents)
    with pytest.raises(ExportError, match=said):
        load_classifier(str(tmp_path / "checkpoint"))


@pytest.fixture
def channels_first():
    """Keras as it stands on a machine that keeps channels first: a preset does not say which order it was saved with."""
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format("channels_last")


@pytest.mark.usefixtures("channels_first")
def test_a_network_of_channels_first_is_exported_channels_last_which_every_processor_runs(version, tmp_path) -> None:
    tiny_vit.network(channels_first=True).save_to_preset(str(tmp_path / "preset"))
    folder = export_vit(str(tmp_path / "preset"), tiny_vit.NAMES, tmp_path / "vit")
    assert keras.config.image_data_format() == "channels_first"
    formats = [node.attr["data_format"].s for node in nodes_of(folder) if node.op == "Conv2D"]
    assert formats
    assert b"NCHW" not in formats
    labels, confidence = Vit(folder).ask(TEXTS)
    assert labels == version.ask(TEXTS)[0]
    np.testing.assert_allclose(confidence, version.ask(TEXTS)[1], rtol=0, atol=CLOSE)


def test_a_softmax_inside_the_network_is_not_taken_twice(tmp_path) -> None:
    tiny_vit.network(activation="softmax").save_to_preset(str(tmp_path / "preset"))
    exported = Vit(export_vit(str(tmp_path / "preset"), tiny_vit.NAMES, tmp_path / "vit"))
    same_top1(exported.ask(TEXTS[:4]), probabilities_by_keras(tiny_vit.network(), PHOTOS[:4]), tiny_vit.NAMES)


def test_bytes_and_the_best_names_have_signatures_of_their_own_and_no_photos_get_no_labels(version) -> None:
    labels, confidence = version.ask(TEXTS[:3])
    from_bytes = version.image_bytes(image_bytes=tf.constant(PHOTOS[:3]))
    assert [label.decode() for label in from_bytes["label"].numpy()] == labels
    np.testing.assert_allclose(from_bytes["confidence"], confidence, atol=1e-6)
    best = version.labels(string_input=tf.constant(TEXTS[:3]))
    assert best["labels"].shape == (3, 5)
    assert [row[0].decode() for row in best["labels"].numpy()] == labels
    np.testing.assert_allclose(tf.reduce_sum(best["probabilities"], axis=1), 1, atol=1e-5)
    labels, confidence = version.ask([])
    assert (labels, confidence.shape) == ([], (0,))


def test_no_variable_is_left_and_the_weights_are_there_once(version) -> None:
    nodes = nodes_of(version.folder)
    assert not {"VarHandleOp", "ReadVariableOp"} & {node.op for node in nodes}
    constants = [node.attr["value"].tensor for node in nodes if node.op == "Const"]
    held = sum(4 * np.prod([dim.size for dim in each.tensor_shape.dim]) for each in constants if each.dtype == 1)
    weights = 4 * tiny_vit.network().count_params()
    assert weights <= held < 1.1 * weights


def test_it_describes_itself_and_has_a_warm_up_request_for_each_signature(version, preset) -> None:
    description = json.loads((version.folder / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8"))
    assert description["classes"] == tiny_vit.NAMES
    assert description["input_size"] == list(tiny_vit.SIZE)
    np.testing.assert_allclose(description["preprocessing"]["mean"], tiny_vit.MEAN)
    np.testing.assert_allclose(description["preprocessing"]["deviation"], tiny_vit.DEVIATION)
    assert description["preprocessing"]["resizing"] == {"crop": True, "method": "bilinear", "antialias": False}
    assert description["source"] == {"preset": str(preset), "exported_by": "dogsnap export vit"}
    assert warm_up(Servable.load(ServableId("vit", 1), version.folder)) == 3


# -- what cannot be exported -------------------------------------------------------------------------------------------


def config_of(folder: Path, file: str, **changes: object) -> Path:
    """Change a JSON file of a checkpoint; a value of None removes the key."""
    config = {**json.loads((folder / file).read_text()), **changes}
    (folder / file).write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    tiny_vit.hugging_face(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


BROKEN = {
    "without its processor": (
        lambda folder: (folder / "preprocessor_config.json").unlink(),
        "preprocessor_config.json is missing",
    ),
    "a processor that crops": (
        lambda folder: config_of(folder, "preprocessor_config.json", do_center_crop=True),
        "do_center_crop True.*expected the whole photo squashed",
    ),
    "the shortest edge": (
        lambda folder: config_of(folder, "preprocessor_config.json", size={"shortest_edge": 32}),
        "shortest_edge.*expected the whole photo squashed",
    ),
    "an unknown filter": (
        lambda folder: config_of(folder, "preprocessor_config.json", resample=5),
        "resample 5.*expected the whole photo squashed",
    ),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config.json is no JSON"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    "another kind of model": (lambda folder: config_of(folder, "config.json", model_type="unheard"), "cannot read"),
    "no kind of model": (lambda folder: config_of(folder, "config.json", model_type=None), "cannot read"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "cannot read"),
    "weights cut short": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:5000]),
        "cannot read",
    ),
    "weights of another size": (lambda folder: config_of(folder, "config.json", hidden_size=32), "cannot read"),
    "no head": (
        lambda folder: config_of(folder, "config.json", architectures=["ViTModel"]),
        "cannot read.* with its head of classes",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_checkpoint_that_does_not_fit_is_refused_in_a_sentence(checkpoint, tmp_path, broken) -> None:
    change, said = BROKEN[broken]
    change(checkpoint)
    with pytest.raises(ExportError, match=said) as refused:
        export_vit(str(checkpoint), [], tmp_path / "models" / "vit")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "models").exists()


def test_names_that_do_not_fit_the_classes_are_refused_with_their_numbers(checkpoint, preset) -> None:
    with pytest.raises(ExportError, match=r"has 12 classes and there are 2 names for them; .* by --labels"):
        load_classifier(str(checkpoint), ["one", "two"])
    with pytest.raises(ExportError, match="has 5 classes and there are 0 names"):
        load_classifier(str(preset))


def test_a_classifier_that_is_no_vit_is_refused_by_its_name(tmp_path) -> None:
    backbone = keras_hub.models.ResNetBackbone([64], [7], [64], [1], [1], "basic_block")
    keras_hub.models.ResNetImageClassifier(backbone, num_classes=2).save_to_preset(str(tmp_path / "preset"))
    with pytest.raises(ExportError, match="holds a ResNetBackbone; expected a ViT"):
        load_classifier(str(tmp_path / "preset"), ["a", "b"])


def test_a_preset_that_does_not_say_what_it_was_trained_on_is_refused(tmp_path) -> None:
    task = tiny_vit.network()
    task.preprocessor = None
    task.save_to_preset(str(tmp_path / "preset"))
    with pytest.raises(ExportError, match="does not say which images it was trained on"):
        load_classifier(str(tmp_path / "preset"), tiny_vit.NAMES)


# -- the command -------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export", "vit", *map(str, arguments)])


def test_the_command_writes_the_next_version_beside_the_first(preset, tmp_path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join(tiny_vit.NAMES) + "\n")
    options = ("--from", preset, "--labels", names, "--out", tmp_path / "models")
    done = run(*options)
    first = tmp_path / "models" / "vit" / "1"
    assert (done.exit_code, done.output) == (0, f"reading {preset}\nwrote {first}\n")
    before = contents_of(first)
    assert run(*options).output.endswith(f"wrote {first.with_name('2')}\n")
    assert contents_of(first) == before


def test_what_is_for_vit_alone_is_refused_elsewhere(tmp_path) -> None:
    done = CliRunner().invoke(main, ["export", "inception_v3", "--labels", __file__])
    assert done.exit_code == 2
    assert "--labels is for `dogsnap export vit` alone" in done.output


def test_without_kerashub_one_sentence_names_the_command_that_installs_it(preset, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    done = run("--from", preset, "--out", tmp_path)
    assert done.exit_code == 1
    assert "keras_hub is not installed; run make setup EXTRAS=vit" in done.output.splitlines()[-1]


def test_a_folder_that_is_not_there_is_said_so(tmp_path) -> None:
    done = run("--from", tmp_path / "nowhere", "--out", tmp_path / "models")
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].startswith(
        f"Error: there is no folder {tmp_path / 'nowhere'}; expected one with"
    )


def export_from_the_hub(tmp_path: Path) -> subprocess.CompletedProcess:
    """Run the command as a program, with nothing said about where from; the hub is what its cache in `tmp_path` holds."""
    command = [Path(sys.executable).with_name("dogsnap"), "export", "vit", "--out", tmp_path / "models"]
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=300, check=False)


def test_without_the_network_the_hub_is_said_to_be_out_of_reach_in_one_line(tmp_path) -> None:
    done = export_from_the_hub(tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: cannot fetch hf://google/vit-base-patch16-224: LocalEntryNotFoundError")
    assert line.endswith("or give --from the folder of a checkpoint on disk")
    assert not (tmp_path / "models").exists()


def test_what_was_fetched_from_the_hub_before_is_exported_under_its_name(tmp_path) -> None:
    repository = tmp_path / "cache" / "hub" / "models--google--vit-base-patch16-224"
    tiny_vit.hugging_face(repository / "snapshots" / "1a2b3c")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("1a2b3c")
    done = export_from_the_hub(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    version = tmp_path / "models" / "vit" / "1"
    assert done.stdout == f"reading hf://google/vit-base-patch16-224\nwrote {version}\n"
    description = json.loads((version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8"))
    assert description["source"]["preset"] == "hf://google/vit-base-patch16-224"
    assert description["classes"] == [f"class {number}" for number in range(12)]


@pytest.mark.long
def test_a_vit_base_is_exported_with_less_than_4_gb(tmp_path, monkeypatch) -> None:
    base = {"SIZE": (224, 224), "PATCH": 16, "LAYERS": 12, "HEADS": 12, "HIDDEN": 768, "MLP": 3072}
    for name, value in base.items():
        monkeypatch.setattr(tiny_vit, name, value)
    tiny_vit.hugging_face(tmp_path / "checkpoint", classes=1000)
    command = [Path(sys.executable).with_name("dogsnap"), "export", "vit"]
    command += ["--from", tmp_path / "checkpoint", "--out", tmp_path / "models"]
    start = time.monotonic()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu, gigabytes = time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
    print(f"ViT-base: {seconds:.0f} s, {cpu:.0f} s of processor time, {gigabytes:.1f} GB at most")
    assert process.returncode == 0
    assert gigabytes < 4
    size = sum(map(len, contents_of(tmp_path / "models" / "vit" / "1").values()))
    assert 4 * 86_567_656 < size < 4.1 * 86_567_656


# -- served ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(start_server, version, tmp_path_factory):
    """A server that would die of importing KerasHub."""
    poison = tmp_path_factory.mktemp("poison")
    (poison / "keras_hub.py").write_text("raise SystemExit('the server imported keras_hub')\n")
    return start_server(version.folder.parent.parent, environ={"PYTHONPATH": str(poison)})


def predict(server, texts: list[bytes], path: str = "vit") -> requests.Response:
    body = {"signature_name": "serving_default", "instances": [text.decode() for text in texts]}
    return requests.post(f"{server.url}/v1/models/{path}:predict", json=body, timeout=60)


CORRUPT = [0, 21, 31]


def with_corrupt() -> list[bytes]:
    cut = base64.urlsafe_b64encode(PHOTOS[0][:60])
    return [cut if place in CORRUPT else text for place, text in enumerate(TEXTS)]


def places_in(sentence: str) -> list[int]:
    """What a client reads: the numbers in brackets behind the words about places of the batch."""
    return [int(place) for place in re.search(r"at these places of the batch.*?\[([\d ]+)\]", sentence)[1].split()]


def test_rest_names_the_places_of_corrupt_photos_and_answers_the_others_when_they_come_again(server) -> None:
    texts = with_corrupt()
    refused = predict(server, texts)
    assert refused.status_code == 400
    named = places_in(refused.json()["error"])
    assert named == CORRUPT
    again = predict(server, [text for place, text in enumerate(texts) if place not in named])
    assert len(again.json()["predictions"]) == len(PHOTOS) - len(CORRUPT)


def test_grpc_names_the_places_of_corrupt_photos_and_answers_the_others_when_they_come_again(server) -> None:
    texts = with_corrupt()
    with connected(server.grpc_port) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.predict("vit", string_input=texts)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        named = places_in(refused.value.details())
        assert named == CORRUPT
        again = client.predict("vit", string_input=[text for place, text in enumerate(texts) if place not in named])
    assert len(values(again.outputs)["label"]) == len(PHOTOS) - len(CORRUPT)


def client(name: str, *arguments: object, cwd: Path) -> list[str]:
    """Run a client as a program of its own, in a folder where it cannot see this project."""
    command = [sys.executable, str(CLIENTS / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("path", ["vit", "vit/versions/1"])
def test_the_rest_client_program_gets_the_label(server, version, tmp_path, path) -> None:
    (tmp_path / "photo.png").write_bytes(PHOTOS[5])
    (line,) = client("rest_client.py", f"127.0.0.1:{server.port}", "photo.png", path, cwd=tmp_path)
    (label,), (confidence,) = version.ask(TEXTS[5:6])
    (prediction,) = ast.literal_eval(line)["predictions"]
    assert prediction == {"label": label, "confidence": pytest.approx(float(confidence), abs=1e-5)}


def test_the_grpc_client_program_gets_the_label(server, version, tmp_path) -> None:
    (tmp_path / "photo.png").write_bytes(PHOTOS[5])
    target = f"127.0.0.1:{server.grpc_port}"
    lines = client("grpc_client.py", target, "photo.png", version.folder, cwd=tmp_path)
    (label,), (confidence,) = version.ask(TEXTS[5:6])
    assert lines[0] == "Serving function input: string_input"
    assert lines[1] == f"{[label.encode()]} {[float(confidence)]}"
    assert lines[2] == "version 1"


def test_show_names_the_input_and_the_nodes_with_their_shapes(version) -> None:
    signatures = CliRunner().invoke(main, ["show", str(version.folder.parent)]).output
    default = signatures.split("signature_def['serving_default']:")[1]
    assert "inputs['string_input'] tensor_info:\n        dtype: DT_STRING\n        shape: (-1)" in default
    nodes = CliRunner().invoke(main, ["show", str(version.folder), "--nodes"]).output.splitlines()
    operations = {line.split()[1] for line in nodes if line.startswith("  ") and len(line.split()) > 1}
    assert {"DecodeBase64", "DecodeImage", "Softmax", "TopKV2", "Einsum"} <= operations
    assert nodes[-1].startswith("No decoding can be merged in as it is: there is no image input")
    assert nodes[-1].endswith("decoding may be merged in already.")
