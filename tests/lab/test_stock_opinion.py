"""Weights of PyTorch, read without it: the tensors as they were, and nothing that is executed."""

import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from lab.stock_opinion import class_places, read_tensors

NUMBERS = np.arange(24, dtype=np.float32)


class Reduced:
    """Is pickled as a call."""

    def __init__(self, function: object, *arguments: object) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple:
        return self._call


class Writer(pickle.Pickler):
    def persistent_id(self, value: object) -> object:
        is_storage = isinstance(value, tuple) and value[:1] == ("storage",)
        return value if is_storage else None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stands for PyTorch where a file of it is written."""
    module, tools = ModuleType("torch"), ModuleType("torch._utils")
    for owner, name in ((module, "FloatStorage"), (tools, "_rebuild_tensor_v2")):
        kind = type(name, (), {"__module__": owner.__name__})
        monkeypatch.setattr(owner, name, kind, raising=False)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setitem(sys.modules, "torch._utils", tools)
    return module


def write(file: Path, torch: ModuleType, tensors: object) -> Path:
    with file.open("wb") as stream:
        for value in (1, 1001, {"little_endian": True}):
            pickle.dump(value, stream, 2)
        Writer(stream, 2).dump(tensors)
        pickle.dump(["7"], stream, 2)
        stream.write(len(NUMBERS).to_bytes(8, "little") + NUMBERS.tobytes())
    return file


def tensor(torch: ModuleType, *place: object) -> Reduced:
    storage = ("storage", torch.FloatStorage, "7", "cpu", len(NUMBERS), None)
    rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
    return Reduced(rebuild, storage, *place, False, OrderedDict())


def test_tensors_are_read_by_their_strides(torch: ModuleType, tmp_path: Path) -> None:
    stored = OrderedDict(
        plain=tensor(torch, 0, (4, 6), (6, 1)), turned=tensor(torch, 12, (3, 2), (1, 3))
    )
    found = read_tensors(write(tmp_path / "file.pth", torch, stored))
    np.testing.assert_array_equal(found["plain"], NUMBERS.reshape(4, 6))
    np.testing.assert_array_equal(found["turned"], NUMBERS[12:18].reshape(2, 3).T)


def test_a_file_that_would_execute_something_is_refused(torch: ModuleType, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    file = write(tmp_path / "file.pth", torch, {"a": Reduced(Path.touch, marker)})
    with pytest.raises(ValueError, match="is not expected there"):
        read_tensors(file)
    assert not marker.exists()


@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04 a zip file", pickle.dumps([1])])
def test_another_file_is_refused(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "file.pth").write_bytes(contents)
    with pytest.raises(ValueError, match="holds no weights of PyTorch"):
        read_tensors(tmp_path / "file.pth")


def test_breeds_stand_at_their_places_among_the_classes_of_imagenet() -> None:
    from dogsnap.exporting.export import read_json

    labels = read_json(Path("models/inception_v3/labels.json"))
    places = class_places([label["id"] for label in labels])
    # Places that Keras Applications' list of classes has.
    names = {label["name"]: places[label["id"]] for label in labels}
    assert {name: names[name] for name in ("Chihuahua", "pug", "dingo", "dhole")} == {
        "Chihuahua": 151,
        "pug": 254,
        "dingo": 273,
        "dhole": 274,
    }
    assert places["n02110341"] == 251  # the dalmatian
    assert len(set(places.values())) == 121
