"""A switch to a version that clients would feel is refused with the difference; --force makes it, and the log says so."""

import base64
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.merging.merge import merge
from dogsnap.exporting.merging.options import Options
from support import tensorflow1_models, tiny_models
from support.changed_version import changed_version
from support.command_line import dogsnap
from support.exported import png
from support.refusals import assert_refused
from support.tiny_models import half_plus, save, signature, spec

STABLE = "labels/stable"


def without_labels(version: Path, number: int) -> Path:
    return changed_version(
        version, version.with_name(str(number)), lambda description: description.pop("labels")
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """`dogs`: 1 takes numbers, 2 photos, 3 has no labels. `half`: 2 has another input, 3 a fixed shape, 4 more."""
    folder = tmp_path_factory.mktemp("models")
    tiny_models.colours(folder / "dogs")
    without_labels(folder / "dogs" / "2", 3)
    half_plus(1, folder / "half" / "1")
    other = spec(tf.float32, None, name="z")
    save(folder / "half" / "2", serving_default=signature(lambda z: {"y": z / 2}, other))
    fixed = spec(tf.float32, 3, name="x")
    save(folder / "half" / "3", serving_default=signature(lambda x: {"y": x / 2}, fixed))
    numbers = tf.TensorSpec(None, tf.float32, "x")
    more = signature(lambda x: {"y": x / 2, "z": x}, numbers)
    save(folder / "half" / "4", serving_default=more, extra=more)
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models)


@pytest.fixture(scope="module", params=["server", "gateway"])
def door(request, server, start_server, models):
    """A server, and a gateway in front of it."""
    if request.param == "server":
        return server
    return start_server(models, "--engine", f"grpc://127.0.0.1:{server.grpc_port}")


def admin(server, path: str, model: str = "dogs", **fields):
    return server.post(f"/api/admin/models/{model}/{path}", json=fields)


def settle(server, model: str, version: int) -> None:
    for path in ("default", STABLE):
        assert admin(server, path, model, version=version, force=True).ok


CASES = {
    "without labels": ("dogs", 2, 3, "version 3 cannot name breeds"),
    "of another input": (
        "half",
        1,
        2,
        "version 2 takes no x in serving_default, version 1 x float32",
    ),
    "of fewer shapes": (
        "half",
        1,
        3,
        "version 3 takes x float32 (3) in serving_default, version 1 x float32",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_version_that_clients_would_feel_is_refused_by_default_label_and_split(door, case):
    model, before, after, difference = CASES[case]
    moves = {
        "default": {"version": after},
        STABLE: {"version": after},
        "split": {"version": after, "percent": 5},
    }
    for path, fields in moves.items():
        settle(door, model, before)
        planned = admin(door, path, model, dry_run=True, **fields).json()
        assert difference in " ".join(planned["differences"])
        assert planned["would"]
        assert_refused(admin(door, path, model, **fields), 400, difference, "--force")
        forced = admin(door, path, model, force=True, **fields).json()["switch"]
        assert difference in " ".join(forced["forced"])
    newest = door.get("/api/admin/switches", params={"model": model}).json()["switches"][0]
    assert "(forced: " in newest["text"]


def test_more_signatures_outputs_and_shapes_are_no_difference(door):
    settle(door, "half", 1)
    answer = admin(door, "default", "half", version=4).json()
    assert answer["differences"] == answer["notes"] == []
    settle(door, "half", 3)
    assert admin(door, "default", "half", version=1).ok


def test_a_version_that_decodes_photos_itself_may_replace_one_that_takes_numbers(door):
    settle(door, "dogs", 1)
    answer = admin(door, STABLE, version=2).json()
    assert answer["switch"]
    assert "decodes photos itself" in " ".join(answer["notes"])
    assert_refused(admin(door, STABLE, version=1), 400, "image string", "image float32")


@pytest.mark.parametrize("shape", [None, ()])
def test_a_version_that_takes_a_batch_may_replace_one_that_takes_one_photo(
    start_server, tmp_path, shape
):
    """As the article's own version, which decodes one base64 text, is replaced by what `dogsnap merge` makes."""
    with tf.Graph().as_default() as graph:
        text = tf.compat.v1.placeholder(tf.string, shape, name="base64_string")
        picture = tf.io.decode_png(tf.io.decode_base64(tf.reshape(text, [])), 3)
        mean = tf.nn.softmax(tf.reduce_mean(tf.cast(picture, tf.float32), [0, 1]))[tf.newaxis]
        predict = ("predict", {"image": text}, {"prediction": mean})
        tensorflow1_models.save(tmp_path / "net" / "1", graph, serving_default=predict)
    images = spec(tf.float32, None, 16, 16, 3, name="image")
    network = signature(lambda image: {"prediction": tf.reduce_mean(image, [1, 2])}, images)
    labels = [{"id": name, "name": name} for name in ("red", "green", "blue")]
    merged = merge(save(tmp_path / "source" / "1", serving_default=network), Options(labels=labels))
    merged.rename(tmp_path / "net" / "2")
    server = start_server(tmp_path)
    body = {"inputs": {"image": base64.urlsafe_b64encode(png(np.zeros((8, 8, 3)))).decode()}}
    for version in (1, 2):
        assert server.post(f"/v1/models/net/versions/{version}:predict", json=body).ok
    assert admin(server, "default", "net", version=1, force=True).ok
    answer = admin(server, "default", "net", version=2).json()
    assert answer["switch"]
    assert "takes several of image in serving_default as well" in " ".join(answer["notes"])
    assert_refused(admin(server, "default", "net", version=1), 400, "would feel")


def test_going_back_is_never_refused(door):
    settle(door, "dogs", 1)
    assert admin(door, STABLE, version=2).ok
    assert door.post("/api/admin/undo", json={"model": "dogs"}).ok


def test_every_command_says_with_dry_run_what_it_would_change(server):
    for version in (3, 1):  # a default that moves ends a split that another test has left
        settle(server, "half", version)
    commands = (
        "label set new 1", "label move stable 4", "label remove stable", "default 4", "shadow 4",
        "split --to 4 --percent 5", "unload 3", "load 3", "undo",
    )  # fmt: skip
    before = server.get("/api/admin/switches").json()
    for command in commands:
        model = [] if command == "undo" else ["--model", "half"]
        result = dogsnap("models", *command.split(), "--dry-run", *model, "--url", server.url)
        assert result.exit_code == 0, result.output
        assert "would change" in result.output
        assert result.output.endswith("nothing was changed\n")
    assert server.get("/api/admin/switches").json() == before
