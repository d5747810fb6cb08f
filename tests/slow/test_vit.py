"""Vision transformers: KerasHub's answers from a version that takes base64 text and needs TensorFlow alone, by REST and gRPC."""

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
from dogsnap.exporting.export import ExportError
from dogsnap.exporting.vit import export_vit, load_classifier
from dogsnap.serving.photos.preprocessing import decode
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.warmup import warm_up
from PIL import Image
from support import tiny_vit
from support.command_line import dogsnap, refused
from support.exported import Loaded, contents_of, nodes_of
from support.grpc_client import connected, values

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


def probabilities_by_keras(task: keras.Model, photos: list[bytes]) -> np.ndarray:
    """Softmax of what the Keras model says after its own preprocessing of the decoded pixels, (n, classes)."""
    pixels = [decode(tf.constant(photo)).numpy().astype(np.float32) for photo in photos]
    logits = np.concatenate([task.predict(image[np.newaxis], verbose=0) for image in pixels])
    return tf.nn.softmax(logits).numpy()


def same_top1(
    answered: tuple[list[str], np.ndarray], expected: np.ndarray, names: list[str]
) -> None:
    labels, confidence = answered
    assert labels == [names[best] for best in expected.argmax(axis=1)]
    np.testing.assert_allclose(confidence, expected.max(axis=1), rtol=0, atol=CLOSE)


def test_the_top_1_is_the_keras_models_with_its_own_preprocessing_of_drawn_and_of_real_photos(
    version, data_dir
) -> None:
    lines = (data_dir / "stanford_dogs" / "test_list.txt").read_text(encoding="utf-8").split()
    lines = lines[:: max(1, len(lines) // 60)]
    photos = [
        *PHOTOS,
        *((data_dir / "stanford_dogs" / "images" / line).read_bytes() for line in lines),
    ]
    assert len(photos) >= 60
    expected = probabilities_by_keras(tiny_vit.network(), photos)
    assert len(set(expected.argmax(axis=1))) >= 3
    same_top1(version.ask([base64.b64encode(photo) for photo in photos]), expected, tiny_vit.NAMES)


@pytest.mark.parametrize("has_processor", [True, False], ids=["safetensors", "TensorFlow's HDF5"])
def test_a_hugging_face_checkpoint_answers_as_kerashubs_model_of_its_weights(
    tmp_path, has_processor
) -> None:
    """What save_pretrained of TensorFlow writes has no processor: its defaults are taken, and said."""
    write, said = tiny_vit.hugging_face if has_processor else tiny_vit.tensorflow_checkpoint, []
    write(tmp_path / "checkpoint")
    tiny_vit.hugging_face(tmp_path / "safetensors")
    exported = Vit(
        export_vit(
            str(tmp_path / "checkpoint"), [], tmp_path / "models" / "vit", report=said.append
        )
    )
    pictures = [Image.open(io.BytesIO(photo)).convert("RGB") for photo in PHOTOS]
    scale = (
        (tiny_vit.MEAN, tiny_vit.DEVIATION) if has_processor else (np.full(3, 0.5), np.full(3, 0.5))
    )
    expected = tiny_vit.hugging_face_probabilities(tmp_path / "safetensors", pictures, *scale)
    assert len(set(expected.argmax(axis=1))) >= 3
    same_top1(exported.ask(TEXTS), expected, [f"class {number}" for number in range(12)])
    assert len(said) == (not has_processor)
    assert all("no preprocessor_config.json: pixels are scaled to [-1, 1]" in line for line in said)


def test_a_tf_model_h5_that_holds_no_vit_is_refused_in_a_sentence(tmp_path) -> None:
    tiny_vit.tensorflow_checkpoint(tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / "tf_model.h5"
    file.write_bytes(b"no HDF5")
    with pytest.raises(ExportError, match=r"cannot read .*signature"):
        load_classifier(str(tmp_path / "checkpoint"))
    for name in ("empty", "/speech/model/speech/conv/kernel:0"):
        with h5py.File(file, "w") as other:
            other[name] = np.zeros((3, 4, 5))
        with pytest.raises(ExportError, match="holds no ViT; expected what TFViT"):
            load_classifier(str(tmp_path / "checkpoint"))


@pytest.fixture
def channels_first():
    """Keras as it stands on a machine that keeps channels first: a preset does not say which order it was saved with."""
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format("channels_last")


@pytest.mark.usefixtures("channels_first")
def test_a_network_of_channels_first_is_exported_channels_last_which_every_processor_runs(
    version, tmp_path
) -> None:
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
    same_top1(
        exported.ask(TEXTS[:4]),
        probabilities_by_keras(tiny_vit.network(), PHOTOS[:4]),
        tiny_vit.NAMES,
    )


def test_bytes_and_the_best_names_have_signatures_of_their_own_and_no_photos_get_no_labels(
    version,
) -> None:
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


def test_it_takes_base64_text_describes_itself_and_has_a_warm_up_request_for_each_signature(
    version, preset
) -> None:
    servable = LocalServable(ServableId("vit", 1), version.folder)
    signature = servable.signature()
    assert signature.method == "tensorflow/serving/predict"
    specs = {
        name: (spec.dtype.name, *spec.shape)
        for name, spec in {**signature.inputs, **signature.outputs}.items()
    }
    assert specs == {
        "string_input": ("string", None),
        "label": ("string", None),
        "confidence": ("float32", None),
    }
    assert warm_up(servable) == 3
    description = json.loads(
        (version.folder / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8")
    )
    assert description["classes"] == tiny_vit.NAMES
    assert description["input_size"] == list(tiny_vit.SIZE)
    np.testing.assert_allclose(description["preprocessing"]["mean"], tiny_vit.MEAN)
    np.testing.assert_allclose(description["preprocessing"]["deviation"], tiny_vit.DEVIATION)
    assert description["preprocessing"]["resizing"] == {
        "crop": True,
        "method": "bilinear",
        "antialias": False,
    }
    assert description["source"] == {"preset": str(preset), "exported_by": "dogsnap export vit"}


# -- what cannot be exported -------------------------------------------------------------------------------------------


def change(file: Path, changes: dict | str | None) -> None:
    """Of a JSON file some keys, where a value of None removes one; or a text in its place, or None."""
    if changes is None:
        file.unlink()
    elif isinstance(changes, str):
        file.write_text(changes)
    else:
        config = {**json.loads(file.read_text()), **changes}
        file.write_text(
            json.dumps({key: value for key, value in config.items() if value is not None})
        )


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    tiny_vit.hugging_face(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


NOT_SQUASHED = "{}.*expected the whole photo squashed"


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("preprocessor_config.json", None, "preprocessor_config.json is missing"),
        (
            "preprocessor_config.json",
            {"do_center_crop": True},
            NOT_SQUASHED.format("do_center_crop True"),
        ),
        (
            "preprocessor_config.json",
            {"size": {"shortest_edge": 32}},
            NOT_SQUASHED.format("shortest_edge"),
        ),
        ("preprocessor_config.json", {"resample": 5}, NOT_SQUASHED.format("resample 5")),
        ("config.json", "{", "config.json is no JSON"),
        ("config.json", None, "config.json is missing"),
        ("config.json", {"model_type": "unheard"}, "cannot read"),
        ("config.json", {"model_type": None}, "cannot read"),
        ("config.json", {"hidden_size": 32}, "cannot read"),
        ("config.json", {"architectures": ["ViTModel"]}, "cannot read.* with its head of classes"),
        ("model.safetensors", None, "cannot read"),
        ("model.safetensors", "no weights", "cannot read"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_in_a_sentence(
    checkpoint, tmp_path, file, changes, said
) -> None:
    change(checkpoint / file, changes)
    with pytest.raises(ExportError, match=said) as refused:
        export_vit(str(checkpoint), [], tmp_path / "models" / "vit")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "models").exists()


def test_a_preset_that_is_no_vit_or_leaves_names_or_images_open_is_refused(
    checkpoint, preset, tmp_path
) -> None:
    backbone = keras_hub.models.ResNetBackbone([64], [7], [64], [1], [1], "basic_block")
    keras_hub.models.ResNetImageClassifier(backbone, num_classes=2).save_to_preset(
        str(tmp_path / "resnet")
    )
    task = tiny_vit.network()
    task.preprocessor = None
    task.save_to_preset(str(tmp_path / "plain"))
    for folder, names, said in (
        (
            checkpoint,
            ["one", "two"],
            r"has 12 classes and there are 2 names for them; .* by --labels",
        ),
        (preset, [], "has 5 classes and there are 0 names"),
        (tmp_path / "resnet", ["a", "b"], "holds a ResNetBackbone; expected a ViT"),
        (tmp_path / "plain", tiny_vit.NAMES, "does not say which images it was trained on"),
    ):
        with pytest.raises(ExportError, match=said):
            load_classifier(str(folder), names)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_next_version_beside_the_first(preset, tmp_path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join(tiny_vit.NAMES) + "\n")
    options = ("--from", preset, "--labels", names, "--out", tmp_path / "models")
    done = dogsnap("export", "vit", *options)
    first = tmp_path / "models" / "vit" / "1"
    assert (done.exit_code, done.output) == (0, f"reading {preset}\nwrote {first}\n")
    before = contents_of(first)
    assert dogsnap("export", "vit", *options).output.endswith(f"wrote {first.with_name('2')}\n")
    assert contents_of(first) == before


def test_what_the_command_cannot_do_is_one_sentence(preset, tmp_path, monkeypatch) -> None:
    refused(
        dogsnap("export", "inception_v3", "--labels", __file__),
        "--labels is for `dogsnap export vit` alone",
    )
    nowhere = tmp_path / "nowhere"
    done = dogsnap("export", "vit", "--from", nowhere, "--out", tmp_path / "models")
    refused(done, f"Error: there is no folder {nowhere}; expected one with")
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    done = dogsnap("export", "vit", "--from", preset, "--out", tmp_path)
    refused(done, "keras_hub is not installed; run make setup EXTRAS=vit")


def export_from_the_hub(tmp_path: Path) -> subprocess.CompletedProcess:
    """Run the command as a program, with nothing said about where from; the hub is what its cache in `tmp_path` holds."""
    command = [
        Path(sys.executable).with_name("dogsnap"),
        "export",
        "vit",
        "--out",
        tmp_path / "models",
    ]
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    return subprocess.run(
        command, capture_output=True, text=True, env=environ, timeout=300, check=False
    )


def test_without_the_network_the_hub_is_said_to_be_out_of_reach_in_one_line(tmp_path) -> None:
    done = export_from_the_hub(tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "Error: cannot fetch hf://google/vit-base-patch16-224: LocalEntryNotFoundError"
    )
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
    description = json.loads(
        (version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8")
    )
    assert description["source"]["preset"] == "hf://google/vit-base-patch16-224"
    assert description["classes"] == [f"class {number}" for number in range(12)]


def cost_of(command: list) -> tuple[float, float]:
    """Seconds of processor time, and the peak of its memory in GB. A small process starts it: the
    peak of what is started by this one would begin with the memory of this one.
    """
    starter = """if True:
        import resource, subprocess, sys
        subprocess.run(sys.argv[1:], check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(used.ru_utime + used.ru_stime, used.ru_maxrss)"""
    output = subprocess.check_output([sys.executable, "-c", starter, *command], text=True)
    seconds, kibibytes = output.split()[-2:]
    return float(seconds), int(kibibytes) / 2**20


@pytest.mark.long
def test_a_vit_base_is_exported_with_less_than_4_gb(tmp_path, monkeypatch) -> None:
    base = {"SIZE": (224, 224), "PATCH": 16, "LAYERS": 12, "HEADS": 12, "HIDDEN": 768, "MLP": 3072}
    for name, value in base.items():
        monkeypatch.setattr(tiny_vit, name, value)
    tiny_vit.hugging_face(tmp_path / "checkpoint", classes=1000)
    command = [Path(sys.executable).with_name("dogsnap"), "export", "vit"]
    command += ["--from", tmp_path / "checkpoint", "--out", tmp_path / "models"]
    start = time.monotonic()
    cpu, gigabytes = cost_of(command)
    seconds = time.monotonic() - start
    print(f"ViT-base: {seconds:.0f} s, {cpu:.0f} s of processor time, {gigabytes:.1f} GB at most")
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


CORRUPT = [0, 21, 31]


def test_rest_and_grpc_give_the_label_and_name_the_places_of_corrupt_photos(
    server, version
) -> None:
    cut = base64.urlsafe_b64encode(PHOTOS[0][:60])
    texts = [cut if place in CORRUPT else text for place, text in enumerate(TEXTS)]
    whole = [text for place, text in enumerate(TEXTS) if place not in CORRUPT]
    labels, confidence = version.ask(whole)

    def rest(asked: list[bytes], path: str = "vit") -> dict:
        body = {"signature_name": "serving_default", "instances": [text.decode() for text in asked]}
        return requests.post(f"{server.url}/v1/models/{path}:predict", json=body, timeout=60).json()

    assert places_in(rest(texts)["error"]) == CORRUPT
    for path in ("vit", "vit/versions/1"):
        predictions = rest(whole, path)["predictions"]
        assert [each["label"] for each in predictions] == labels
        np.testing.assert_allclose(
            [each["confidence"] for each in predictions], confidence, atol=1e-5
        )
    with connected(server.grpc_port) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.predict("vit", string_input=texts)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert places_in(refused.value.details()) == CORRUPT
        answer = client.predict("vit", string_input=whole)
    assert [label.decode() for label in values(answer.outputs)["label"]] == labels
    np.testing.assert_allclose(values(answer.outputs)["confidence"], confidence, atol=1e-5)
    assert answer.model_spec.version.value == 1


def places_in(sentence: str) -> list[int]:
    """What a client reads: the numbers in brackets behind the words about places of the batch."""
    return [
        int(place)
        for place in re.search(r"at these places of the batch.*?\[([\d ]+)\]", sentence)[1].split()
    ]
