"""The runtime a version brings along: the same answers as TensorFlow's, and TensorFlow's where it cannot be used."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openvino
import pytest
import tensorflow as tf
from dogsnap import processor
from dogsnap.errors import FailedPrecondition, InvalidArgument
from dogsnap.serving.execution.executor import within
from dogsnap.serving.photos.base64_text import to_web_safe_base64
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions import checksums, low_priority, openvino_runtime
from dogsnap.serving.versions.servable import LocalServable
from support import accelerated
from support.exported import LABELS, SIZE, photos
from support.waiting import wait_until

pytestmark = pytest.mark.early

PHOTOS = photos(4)
TEXTS = [to_web_safe_base64(photo) for photo in PHOTOS]
IMAGES = np.random.default_rng(5).random((4, *SIZE, 3), np.float32)
TOLERANCE = {1: 1e-5, 2: 1e-5, 3: 0.05}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return accelerated.versions(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def loaded(made) -> dict[int, LocalServable]:
    return {number: load(made / str(number)) for number in (1, 2, 3)}


def load(folder: Path) -> LocalServable:
    return LocalServable(ServableId("tiny", int(folder.name)), folder)


@pytest.fixture
def copy(made, tmp_path) -> Path:
    return shutil.copytree(made / "2", tmp_path / "2")


def fed(servable: LocalServable, signature: str, count: int) -> dict:
    (alias,) = servable.signature(signature).inputs
    values = IMAGES if servable.id.version == 1 else PHOTOS if alias.endswith("_bytes") else TEXTS
    return {alias: values[:count]}


# Of no images, version 1 in TensorFlow gives an error of a kernel.
@pytest.mark.parametrize(
    ("number", "count"), [(1, 1), (1, 4), (2, 0), (2, 1), (2, 3), (2, 4), (3, 1), (3, 4)]
)
def test_every_signature_answers_as_the_savedmodel_does_in_tensorflow(made, loaded, number, count):
    reference = tf.saved_model.load(str(made / str(number))).signatures
    servable = loaded[number]
    assert servable.runtime["name"] == "openvino"
    assert set(servable.signatures) == set(reference)
    for name, signature in servable.signatures.items():
        ((alias, values),) = fed(servable, name, count).items()
        answers = servable.run(signature, {alias: values})
        expected = reference[name](**{alias: tf.constant(values, signature.inputs[alias].dtype)})
        assert set(answers) == set(expected)
        for output, value in expected.items():
            assert answers[output].shape == tuple(value.shape)
            if value.dtype != tf.string:
                np.testing.assert_allclose(
                    answers[output], value, atol=TOLERANCE[number], err_msg=f"{name}.{output}"
                )
            elif number != 3:
                assert answers[output].tolist() == value.numpy().tolist()
            else:  # other probabilities may come in another order
                assert {name.decode() for row in answers[output] for name in row} <= {
                    each["name"] for each in LABELS
                }


def test_versions_of_one_network_hold_it_once_on_the_disk_and_in_memory(made, loaded):
    folders = [made / number / openvino_runtime.FOLDER for number in "123"]
    assert (
        len(
            {
                (each / openvino_runtime.NETWORK).with_suffix(".bin").stat().st_ino
                for each in folders
            }
        )
        == 1
    )
    precisions = [openvino_runtime.NetworkManifest.read(each).precision for each in folders]
    assert precisions == ["f32", "f32", "bf16"]
    one, two, fast = (loaded[number]._loaded._network for number in (1, 2, 3))
    assert one is two
    assert fast is not one  # it multiplies other numbers, which lie in the same file


def test_the_copy_of_weights_takes_no_memory_once_the_network_is_compiled(
    made, monkeypatch, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = made / "2" / openvino_runtime.FOLDER / openvino_runtime.NETWORK
    network = openvino_runtime.Network(file, openvino_runtime.EXACT, ["prediction"])
    assert resident_bytes(tmp_path) == 0
    del network
    with pytest.raises(StopIteration):  # it is not even mapped
        resident_bytes(tmp_path)


def test_the_copy_of_weights_holds_the_same_with_small_constants_in_front(made):
    file = made / "2" / openvino_runtime.FOLDER / openvino_runtime.NETWORK
    expected = openvino.Core().read_model(file)
    description, mapped = openvino_runtime.read_network(file)
    tensor = openvino.Tensor(np.frombuffer(mapped, np.uint8), shared_memory=True)
    model = openvino.Core().read_model(description, tensor)
    pairs = zip(model.get_ordered_ops(), expected.get_ordered_ops(), strict=True)
    for node, same in pairs:
        if node.get_type_name() == "Constant":
            assert np.array_equal(node.data, same.data)
    places = openvino_runtime.PLACE.findall(description)
    sizes = [int(size) for _, size in sorted(places, key=lambda place: int(place[0]))]
    assert sizes == sorted(sizes)
    assert sizes[0] < 64 < sizes[-1]


def test_weights_that_are_too_short_are_no_network(made, tmp_path):
    made_in = made / "2" / openvino_runtime.FOLDER
    for name in (openvino_runtime.NETWORK, "network.bin"):
        shutil.copyfile(made_in / name, tmp_path / name)
    os.truncate(tmp_path / "network.bin", (tmp_path / "network.bin").stat().st_size - 4)
    with pytest.raises(openvino_runtime.IncompatibleNetwork, match=r"network.bin is too short"):
        openvino_runtime.read_network(tmp_path / openvino_runtime.NETWORK)


def test_a_network_in_int8_has_no_subgraphs_which_take_memory(made):
    file = made / "2" / openvino_runtime.FOLDER / openvino_runtime.NETWORK
    assert "Subgraph" in compiled_operations(file, openvino_runtime.EXACT)
    assert "Subgraph" not in compiled_operations(file, openvino_runtime.INT8)


def compiled_operations(file: Path, precision: str) -> set[str]:
    network = openvino_runtime.Network(file, precision, ["prediction"], one_caller=True)
    (request,) = network._alone._requests
    model = request.get_compiled_model().get_runtime_model()
    return {node.get_rt_info()["layerType"].value for node in model.get_ordered_ops()}


def test_beside_requests_it_is_compiled_at_low_priority_and_runs_at_the_usual_one(
    made, monkeypatch
):
    file = made / "2" / openvino_runtime.FOLDER / openvino_runtime.NETWORK
    usual, seen = os.getpriority(os.PRIO_PROCESS, 0), []
    run = low_priority.run

    def note(function, *values: object) -> object:
        def noted() -> object:
            seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return function(*values)

        return run(noted)

    monkeypatch.setattr(low_priority, "run", note)
    with low_priority.beside_requests(True):
        network = openvino_runtime.Network(file, openvino_runtime.EXACT, ["prediction"])
    assert set(seen) == {min(usual + low_priority.NICENESS, 19)}
    images = np.zeros((64, *network.shape), np.float32)
    run(network.run, images)  # as a warm-up
    before = nanoseconds_at_low_priority(usual)
    network.run(images)
    assert nanoseconds_at_low_priority(usual) == before


def nanoseconds_at_low_priority(usual: int) -> int:
    """On a processor, of the threads of this process that are not at the usual priority."""
    sum_of_all = 0
    for thread in os.listdir("/proc/self/task"):
        if os.getpriority(os.PRIO_PROCESS, int(thread)) > usual:
            schedule = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii")
            sum_of_all += int(schedule.split()[0])
    return sum_of_all


def resident_bytes(folder: Path) -> int:
    """How much of a folder's file that is mapped into this process lies in memory."""
    lines = iter(Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines())
    while f"{folder}/" not in next(lines):
        continue
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def test_requests_side_by_side_get_their_own_answers_and_one_without_a_photo_an_error(loaded):
    servable = loaded[2]
    with pytest.raises(InvalidArgument):
        servable.run(servable.signature("scores"), {"image_bytes": [b"no photo"]})
    alone = [
        servable.run_photos(servable.signature("scores"), [photo])["prediction"] for photo in PHOTOS
    ]
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(servable.run_photos, servable.signature("scores"), [photo])
            for photo in PHOTOS * 8
        ]
        for place, answer in enumerate(asked):
            np.testing.assert_allclose(
                answer.result()["prediction"], alone[place % len(PHOTOS)], atol=1e-6
            )


def test_after_an_error_every_request_is_idle_again(loaded, monkeypatch):
    network = loaded[2]._loaded._network

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("out of memory")

    failing = [SimpleNamespace(infer=fail), SimpleNamespace(infer=fail)]
    requests = openvino_runtime.InferRequests(failing)
    monkeypatch.setattr(network, "_together", requests)
    monkeypatch.setattr(network, "_alone", requests)
    for _ in range(2):
        with pytest.raises(MemoryError, match="out of memory"):
            network.run(np.zeros((3, *network.shape), np.float32))
    wait_until(lambda: len(requests._idle) == 2)


def test_of_the_requests_that_are_idle_the_first_is_taken_which_has_all_cores():
    requests = openvino_runtime.InferRequests(["all cores", "one core"])
    for _ in range(2):
        with requests.idle(0.0) as first, requests.idle(0.0) as second:
            assert (first, second) == ("all cores", "one core")


def test_an_idle_request_goes_to_the_image_whose_deadline_comes_first():
    requests, order = openvino_runtime.InferRequests(["request"]), []

    def infer(deadline: float) -> None:
        with requests.idle(deadline):
            order.append(deadline)

    with ThreadPoolExecutor(4) as pool, requests.idle(0.0):
        for deadline in (3.0, math.inf, 1.0, 2.0):
            pool.submit(infer, deadline)
        wait_until(lambda: len(requests._waiting) == 4)
        assert order == []
    assert order == [1.0, 2.0, 3.0, math.inf]


def test_images_are_run_by_the_deadline_of_their_request(loaded, monkeypatch):
    deadlines, row = [], openvino_runtime.Network._row

    def note(self, requests, deadline, image):
        deadlines.append(deadline)
        return row(self, requests, deadline, image)

    monkeypatch.setattr(openvino_runtime.Network, "_row", note)
    with within(12345.0):
        loaded[2].run_photos(loaded[2].signature("scores"), PHOTOS[:3])
    assert deadlines == [12345.0] * 3


@pytest.mark.parametrize(
    "name", ["network.bin", "network.xml", "runtime.json", "around/saved_model.pb"]
)
def test_a_changed_file_of_the_runtime_is_refused_with_its_name(copy, name):
    file = copy / openvino_runtime.FOLDER / name
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.unlink()  # it may be a link to another version's
    file.write_bytes(contents)
    with pytest.raises(
        FailedPrecondition, match=f"^assets.extra/runtime/{name} was changed after the export"
    ):
        load(copy)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, "OpenVINO is not installed"),
        (lambda facts: facts["grey"]["prediction"][0].__setitem__(0, 2.0), "self-test failed"),
        (lambda facts: facts.update(colour="red"), "runtime.json cannot be read"),
    ],
    ids=["not installed", "other answers than at the export", "facts of another form"],
)
def test_a_runtime_that_cannot_be_used_leaves_all_to_tensorflow(
    loaded, copy, monkeypatch, caplog, change, reason
):
    expected = loaded[2].run_photos(loaded[2].signature("scores"), PHOTOS)["prediction"]
    monkeypatch.setattr(openvino_runtime, "_NETWORKS", {})
    if change is None:
        monkeypatch.setitem(sys.modules, "openvino", None)
    else:
        file = copy / openvino_runtime.FOLDER / openvino_runtime.MANIFEST
        facts = json.loads(file.read_text())
        change(facts)
        file.write_text(json.dumps(facts))
        checksums.write(copy)
    servable = load(copy)
    assert (servable.runtime["name"], servable.runtime["in_place_of"]) == ("tensorflow", "openvino")
    assert reason in servable.runtime["reason"]
    assert "tiny version 2 runs in TensorFlow, not in OpenVINO" in caplog.text
    answers = servable.run_photos(servable.signature("scores"), PHOTOS)
    np.testing.assert_allclose(answers["prediction"], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "bits", "runtime"),
    [
        ({"avx2"}, 8, "tensorflow"),
        ({"avx2"}, None, "tensorflow"),
        ({"avx2"}, 7, "openvino"),
        ({"avx2", "avx_vnni"}, 8, "openvino"),
        (set(), 8, "openvino"),
    ],
)
def test_an_int8_network_whose_sums_overflow_on_this_processor_is_left_to_tensorflow(
    copy, monkeypatch, flags, bits, runtime
):
    """`bits` is None for a manifest of an earlier release; a processor that is not x86 lists no flags."""
    file = copy / openvino_runtime.FOLDER / openvino_runtime.MANIFEST
    manifest = json.loads(file.read_text()) | {"precision": "int8", "weight_bits": bits}
    if bits is None:
        del manifest["weight_bits"]
    file.write_text(json.dumps(manifest))
    checksums.write(copy)
    monkeypatch.setattr(processor, "instructions", lambda: flags)
    servable = load(copy)
    assert servable.runtime["name"] == runtime
    if runtime == "tensorflow":
        assert "int8 weights have 8 bits, expected at most 7" in servable.runtime["reason"]


def test_openvino_comes_without_the_part_that_reports_to_its_maker():
    script = (
        "import sys; from dogsnap.serving.versions import openvino_runtime; openvino_runtime.import_openvino(); "
        "print([name for name in ('openvino_telemetry', 'openvino.tools.ovc') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
