"""A version of a model in this process, without a server: `dogsnap.load`."""

import io
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, overload

import numpy as np
from PIL import Image, ImageFile

from dogsnap.errors import FailedPrecondition, InvalidArgument, NotFound
from dogsnap.model_urls import is_url, without_secrets
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.answers.classification import Classification
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import Photos, Values
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE, Signature
from dogsnap.serving.versions import saved_model_file
from dogsnap.serving.versions.version_folders import VERSION, version_folders
from dogsnap.settings import Settings

Photo: TypeAlias = str | os.PathLike[str] | bytes | Image.Image | np.ndarray
PROTOCOL = "python"
MODES_OF_PNG = ("1", "L", "LA", "I;16", "I;16B", "P", "RGB", "RGBA")  # of Pillow's images


class LocalModel:
    """One version, loaded. Thread-safe."""

    def __init__(self, settings: Settings, spec: ModelSpec):
        """Load the version of `spec`, which names a number, as a server with
        these settings does. Raises FailedPrecondition where that fails.
        """
        self._spec = spec
        self._process, self._is_closed = os.getpid(), False
        self._predictor = create_predictor(settings, only=spec)
        (status,) = self._predictor.repository.status(spec)
        if spec.version not in self._predictor.repository.available(spec.name):
            self.close()
            raise FailedPrecondition(
                f"{spec.name} version {spec.version} failed to load: "
                f"{status.error or 'files are missing'}"
            )
        self.labels: Sequence[Mapping[str, str]] = (
            status.description.labels if status.description else ()
        )

    def __repr__(self) -> str:
        return f"<{self._spec.name} version {self._spec.version}>"

    def _open(self) -> Predictor:
        """Raises FailedPrecondition where it was closed, or in a process that was forked
        from that which loaded it: TensorFlow's threads are not there, and it waits for ever.
        """
        if self._is_closed:
            raise FailedPrecondition(f"{self!r} was closed; load it again")
        if self._process != os.getpid():
            raise FailedPrecondition(
                f"{self!r} was loaded before this process was forked, which TensorFlow does not "
                'survive; load it in the process that asks it, or start that by "spawn"'
            )
        return self._predictor

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """What it takes and gives, by the names of its signatures."""
        with self._open().repository.acquire(self._spec) as servable:
            return servable.signatures

    @overload
    def classify(self, photo: Photo, top_k: int | None = None) -> Classification: ...

    @overload
    def classify(
        self, photo: list[Photo] | tuple[Photo, ...], top_k: int | None = None
    ) -> list[Classification]: ...

    def classify(
        self, photo: Photo | list[Photo] | tuple[Photo, ...], top_k: int | None = None
    ) -> Classification | list[Classification]:
        """Name the class in a photo: the path or the bytes of a file, a Pillow
        image, or an array (h, w, 3), uint8 or float in [0, 1]. A list of them
        gives a list of answers. EXIF turns a Pillow image that is as it was opened;
        one that was made from it (`convert`, `rotate`, ...) is taken as it lies.

        `top_k`: number of classes to name, 5 where it is not given. Raises
        InvalidArgument for what is no photo, and OSError for a file that cannot
        be read.
        """
        if isinstance(photo, list | tuple):
            return [self.classify(each, top_k) for each in photo]
        return self._open().classify([photo_bytes(photo)], self._spec, top_k, PROTOCOL).answer

    def predict(
        self, inputs: Mapping[str, Any], signature: str = DEFAULT_SIGNATURE
    ) -> dict[str, np.ndarray]:
        """Run a signature on arrays by the names of its inputs, whose first
        dimension counts the instances. Raises InvalidArgument.
        """
        return dict(self.answer(Values(partial(_to_arrays, inputs), signature)).outputs)

    def answer(self, work: Photos | Values) -> Any:
        """The answer to a request of any kind. Raises the types of `dogsnap.errors`."""
        (answer,) = self._open().answer(self._spec, [work], PROTOCOL)
        return answer

    def close(self) -> None:
        self._is_closed = True
        if self._process == os.getpid():
            self._predictor.close()

    def __enter__(self) -> "LocalModel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(version: str | Path) -> LocalModel:
    """See `dogsnap.load`."""
    if is_url(version):
        raise InvalidArgument(
            f"{without_secrets(str(version))} is a URL, which servers read; copy the version here"
        )
    version = Path(version)
    # What is wrong is raised; the program that loads decides what it logs.
    logging.getLogger("dogsnap").addHandler(logging.NullHandler())
    folder = version.absolute()
    if VERSION.fullmatch(folder.name) and folder.is_dir():
        model, number = folder.parent, int(folder.name)
    else:
        model, number = folder, max(version_folders(folder), default=0)
        if not number:
            other = saved_model_file.describe_other(folder)
            raise NotFound(
                f"{other or f'{version} holds no version'}; expected a version folder, such as "
                "models/inception_v3/3, or the folder of a model"
            )
    settings = Settings(model_base_path=str(model), model_name=model.name)
    return LocalModel(settings, ModelSpec(model.name, number))


def photo_bytes(photo: Photo) -> bytes:
    """The bytes of a photo file: as they are, or as PNG. Raises InvalidArgument."""
    if isinstance(photo, bytes | bytearray | memoryview):
        return bytes(photo)
    if isinstance(photo, str | os.PathLike):
        if is_url(os.fspath(photo)):
            url = without_secrets(str(photo))
            raise InvalidArgument(f"{url:.200} is a URL; expected the path or the bytes of a file")
        return Path(photo).read_bytes()
    image = photo if isinstance(photo, Image.Image) else Image.fromarray(_as_bytes(photo))
    # Turned, and put on white, as a photo that comes as a file.
    image.load()  # with the EXIF that stands behind a PNG's pixels
    exif = image.info.get("exif", b"") if isinstance(image, ImageFile.ImageFile) else b""
    if image.mode not in MODES_OF_PNG:
        image = image.convert(_mode_for_png(image))
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1, exif=exif)
    return file.getvalue()


def _mode_for_png(image: Image.Image) -> str:
    """That of MODES_OF_PNG to which an image of another mode is converted."""
    if image.mode == "La":  # Pillow converts it to no other
        return "LA"
    # Whole numbers of 32 bits hold either those of 8 or those of 16.
    if image.mode.startswith("I;16") or (image.mode == "I" and np.any(np.asarray(image) > 255)):
        return "I;16"
    return "RGBA" if image.has_transparency_data else "RGB"


def _as_bytes(photo: Any) -> np.ndarray:
    """A photo as uint8 (h, w, 3)."""
    pixels = np.asarray(photo)
    is_picture = pixels.ndim == 3 and pixels.shape[-1] == 3 and pixels.size > 0
    if not is_picture or pixels.dtype.kind not in "uf":
        raise InvalidArgument(
            "expected a photo: the path or the bytes of a file, a Pillow image, or an array "
            f"(height, width, 3) of uint8, or of floats in [0, 1]; received {type(photo).__name__} "
            f"{pixels.dtype} {pixels.shape}"
        )
    if pixels.dtype.kind == "u":
        if pixels.max() > 255:
            raise InvalidArgument(
                f"expected uint8, received {pixels.dtype} up to {pixels.max()}; divide it by the "
                "largest value that it may have, which gives floats in [0, 1]"
            )
        return pixels.astype(np.uint8)
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise InvalidArgument(
            f"expected floats in [0, 1], received {pixels.min():g} to {pixels.max():g}"
        )
    return (255 * pixels).round().astype(np.uint8)


def _to_arrays(inputs: Mapping[str, Any], signature: Signature) -> dict[str, np.ndarray]:
    """The inputs as models take them: text as bytes, Python's numbers in the
    dtype of the signature. Raises InvalidArgument.
    """
    if not isinstance(inputs, Mapping):
        raise InvalidArgument(
            f"expected values by input ({', '.join(signature.inputs)}), received a "
            f"{type(inputs).__name__}"
        )
    arrays = {}
    for name, value in inputs.items():
        stated = signature.inputs[name].dtype.as_numpy_dtype if name in signature.inputs else object
        arrays[name] = _to_array(name, value, np.dtype(stated))
    return arrays


def _to_array(name: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """A value in the `dtype` of its input; an array keeps its own."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            array = np.asarray(np.frompyfunc(_encode, 1, 1)(array), object)
    # Rows of several lengths, texts beside bytes, half of a surrogate pair.
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f'input "{name}" is no array: {error}') from error
    is_object = array.dtype.kind == "O"
    objects = {type(each).__name__ for each in array.flat} if is_object else set()
    # NumPy holds whole numbers beyond 64 bits as objects.
    is_large = objects == {"int"} and dtype.kind != "O"
    if objects - {"bytes"} and not is_large:
        raise InvalidArgument(
            f'input "{name}": expected numbers, texts or bytes, received '
            f"{', '.join(sorted(objects))}"
        )
    is_as_stated = bool(objects) or isinstance(value, np.ndarray)
    return array if is_as_stated and not is_large else _in_dtype(name, array, dtype)


def _encode(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes) else value


def _in_dtype(name: str, numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Raises InvalidArgument for whole numbers that it does not hold.

    For an input of texts the numbers stay as they are, as complex ones do: the check
    of the signature refuses them and names both dtypes.
    """
    if dtype.kind == "O" or "c" == numbers.dtype.kind != dtype.kind:
        return numbers
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # larger floats become infinity
            converted = numbers.astype(dtype)
    except (OverflowError, TypeError):  # of NumPy's and of bfloat16
        raise InvalidArgument(
            f'input "{name}": expected {dtype} values, received a number that is too large for it'
        ) from None
    if dtype.kind in "iub" and not np.array_equal(converted, numbers):
        raise InvalidArgument(f'input "{name}": expected {dtype} values')
    return converted
