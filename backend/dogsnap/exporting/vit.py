"""Exports ViT image classifiers of KerasHub as versions that take photos and
answer with a label.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dogsnap.exporting import Report, huggingface_h5, layers
from dogsnap.exporting.export import ExportError, read_json, write_version
from dogsnap.exporting.freezing import Function, check_size
from dogsnap.exporting.layers import Network, Tensors
from dogsnap.exporting.merging.image_input import layout_of
from dogsnap.exporting.merging.merged_signatures import (
    TOP_K,
    decode_contents,
    trace,
    warmup_requests,
)
from dogsnap.serving.photos.preprocessing import Resizing

DEFAULT_PRESET = "hf://google/vit-base-patch16-224"
HUB = "hf://"
MISSING = "is missing; expected the files of a KerasHub preset or of a Hugging Face checkpoint"
# What a Hugging Face repository may hold of a network for Keras, or in safetensors;
# other forms of the weights stay there.
HUB_FILES = ("*.json", "*.safetensors", "*.weights.h5")
# Hugging Face's names of resizing methods: Pillow's numbers. Pillow filters as it
# shrinks, as antialiasing does.
RESAMPLE = {0: "nearest", 2: "bilinear", 3: "bicubic"}


def export_vit(
    preset: str, names: Sequence[str], model_folder: Path, report: Report = lambda _: None
) -> Path:
    """Write the ViT image classifier `preset` as the next version of
    `model_folder`; returns the version's folder.

    Signatures, which share one frozen network; photos are JPEG, PNG, GIF, BMP or WebP:
      serving_default  string_input string (n), base64 text           -> label string (n), confidence float32 (n) in [0, 1]
      image_bytes      image_bytes string (n), bytes of the files     -> the same
      labels           string_input                                   -> labels string (n, k), probabilities (n, k), falling
    `preset`, `names`, `report`: see `load_classifier`. Raises ExportError or FreezingError in a
    sentence.
    """
    network, wanted, names = load_classifier(preset, names, report)

    def best(images: tf.Tensor, k: int = TOP_K) -> Tensors:
        return layers.top_k(
            layers.never_empty(network, images)["scores"], names, min(k, len(names))
        )

    def label(images: tf.Tensor) -> Tensors:
        first = best(images, 1)
        return {"label": first["labels"][:, 0], "confidence": first["probabilities"][:, 0]}

    def signature(alias: str, answer: Network) -> Function:
        def answer_photos(**inputs: tf.Tensor) -> Tensors:
            contents = decode_contents(alias, inputs[alias])
            return answer(layers.images_from_bytes(contents, wanted))

        return trace(answer_photos, alias)

    made = {
        "serving_default": signature("string_input", label),
        "image_bytes": signature("image_bytes", label),
        "labels": signature("string_input", best),
    }
    # Without `labels`: with them the app would present the classes as breeds.
    description = {
        "model": model_folder.name,
        "classes": names,
        "input_size": list(wanted.fixed_size()),
        "preprocessing": {
            "mean": list(wanted.mean),
            "deviation": list(wanted.deviation),
            "channels_first": wanted.channels_first,
            "resizing": asdict(wanted.resizing),
        },
        "source": {"preset": preset, "exported_by": "dogsnap export vit"},
    }
    return write_version(
        model_folder, tf.Module(), made, description, warmup_requests(made, wanted.size)
    )


def load_classifier(
    preset: str, names: Sequence[str] = (), report: Report = lambda _: None
) -> tuple[Function, layers.ImageInput, list[str]]:
    """Load and freeze a classifier with KerasHub: images -> {"scores":
    probabilities (n, classes)}; its images, and its classes.

    `preset`: a folder on disk, with a KerasHub preset or a Hugging Face
    checkpoint in safetensors or tf_model.h5; "hf://owner/name"; or any other
    name of a preset that KerasHub knows. `names`: of the classes, in class
    order, for a preset that brings none. `report` receives what the preset
    leaves open. Raises FreezingError, and ExportError when KerasHub is missing,
    the preset cannot be loaded, or is not a ViT classifier.
    """
    keras_hub = _keras_hub()
    source = _on_disk(preset, keras_hub)
    with ExitStack() as stack:
        if huggingface_h5.is_tensorflows(Path(source)):
            try:
                source = str(
                    stack.enter_context(huggingface_h5.as_safetensors(Path(source), report))
                )
            except (OSError, ValueError) as error:
                raise ExportError(f"cannot read {preset}: {error}") from error
        config = read_json(Path(source) / "config.json", MISSING) if Path(source).is_dir() else {}
        task = _task(source, config, preset, keras_hub)
        layout = layout_of(tf.TensorSpec(task.input_shape, tf.float32))
        size = layout.size if layout else None
        if layout is None or size is None or layout.channels != 3 or layout.channels_first:
            raise ExportError(
                f"{preset} takes {task.input_shape}; expected colour images (n, h, w, "
                "3) or (n, 3, h, w)"
            )
        if "model_type" in config:
            wanted = _input_of_hugging_face(Path(source) / huggingface_h5.PROCESSOR, size)
        else:
            wanted = _input_of_keras(
                getattr(task.preprocessor, "image_converter", None), preset, size
            )
        names = _class_names(names, config, task.num_classes, preset)
        return _freeze(task, preset), wanted, names


def _keras_hub() -> ModuleType:
    try:
        import keras_hub
        import safetensors  # noqa: F401 - KerasHub reads checkpoints with it, and finds that out late
    except ImportError as error:
        raise ExportError(
            "vision transformers are read with KerasHub, and "
            f"{error.name or 'part of it'} is not installed; "
            "run make setup EXTRAS=vit in dogsnap's folder"
        ) from error
    return keras_hub


def _on_disk(preset: str, keras_hub: ModuleType) -> str:
    """The folder of `preset`, downloaded if it is on Hugging Face; other names
    are left to KerasHub.
    """
    if preset.startswith(HUB):
        from huggingface_hub import snapshot_download

        try:
            return snapshot_download(preset.removeprefix(HUB), allow_patterns=list(HUB_FILES))
        except (OSError, ValueError) as error:  # its own errors are of these kinds
            raise ExportError(
                f"cannot fetch {preset}: {_first_line(error)}; expected a connection to "
                "the Hugging Face hub and a public "
                "model there, or give --from the folder of a checkpoint on disk"
            ) from error
    is_known = "://" in preset or preset in keras_hub.models.ViTImageClassifier.presets
    if is_known or Path(preset).is_dir():
        return preset
    raise ExportError(
        f"there is no folder {preset}; expected one with a KerasHub preset or a Hugging "
        f"Face checkpoint, or {DEFAULT_PRESET}"
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip(' .')}" if lines else type(error).__name__


def _task(
    source: str, config: Mapping[str, Any], preset: str, keras_hub: ModuleType
) -> keras.Model:
    """The classifier, in the order (n, h, w, 3) whichever it was saved in: the
    weights are the same in both.

    On CPUs, TensorFlow convolves (n, 3, h, w) only where oneDNN has it, which
    is with AVX-512 alone.
    """
    before = keras.config.image_data_format()
    # Keras builds layers that are not told their data format for (n, h, w, c); KerasHub
    # does not tell them.
    keras.config.set_image_data_format("channels_last")
    try:
        shape: Sequence[int] = config.get("config", {}).get("image_shape") or ()
        is_first = len(shape) == 3 and shape[0] == 3 != shape[2]
        own = {"image_shape": (*shape[1:], 3)} if is_first else {}
        task = keras_hub.models.ImageClassifier.from_preset(source, **own)
    # KerasHub raises many types of error: KeyError, TypeError and those of three file formats.
    except Exception as error:
        raise ExportError(
            f"KerasHub cannot read {preset} as an image classifier: "
            f"{_first_line(error)}; expected config and weights of a "
            "ViT with its head of classes"
        ) from error
    finally:
        keras.config.set_image_data_format(before)
    if not isinstance(task.backbone, keras_hub.models.ViTBackbone):
        raise ExportError(
            f"{preset} holds a {type(task.backbone).__name__}; expected a ViT (ViTBackbone)"
        )
    return task


def _input_of_hugging_face(file: Path, size: tuple[int, int]) -> layers.ImageInput:
    """The preprocessing of Hugging Face's ViTImageProcessor: (pixels * factor -
    mean) / deviation.
    """
    config = read_json(file, MISSING)
    method = RESAMPLE.get(config.get("resample", 2))
    crop = config.get("do_center_crop")
    side = config.get("size")
    if method is None or crop or (isinstance(side, dict) and "shortest_edge" in side):
        raise ExportError(
            f"{file} asks for resample {config.get('resample')}, do_center_crop {crop}, "
            f"size {side}; "
            f"expected the whole photo squashed by {', '.join(RESAMPLE.values())}"
        )
    factor = config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1.0
    white = 255.0 * factor
    normalise = config.get("do_normalize", True)
    mean = config.get("image_mean", [0.5] * 3) if normalise else [0.0]
    deviation = config.get("image_std", [0.5] * 3) if normalise else [1.0]
    return layers.ImageInput(
        size,
        mean=tuple(np.divide(mean, white).tolist()),
        deviation=tuple(np.divide(deviation, white).tolist()),
        resizing=Resizing(method=method),
    )


def _input_of_keras(
    converter: keras.layers.Layer | None, preset: str, size: tuple[int, int]
) -> layers.ImageInput:
    """The preprocessing of a KerasHub ImageConverter: pixels in [0, 255] *
    scale + offset.
    """
    if converter is None:
        raise ExportError(
            f"{preset} does not say which images it was trained on; expected an "
            "image_converter.json in it"
        )
    if converter.pad_to_aspect_ratio or converter.interpolation not in ("bilinear", "nearest"):
        border = " with a border" if converter.pad_to_aspect_ratio else ""
        raise ExportError(
            f"{preset} resizes by {converter.interpolation}{border}; "
            "expected bilinear or nearest, squashed or cropped"
        )
    scale = np.atleast_1d(1.0 if converter.scale is None else converter.scale).astype(float)
    offset = np.atleast_1d(0.0 if converter.offset is None else converter.offset).astype(float)
    return layers.ImageInput(
        size,
        mean=tuple((-offset / (255 * scale)).tolist()),
        deviation=tuple((1 / (255 * scale)).tolist()),
        resizing=Resizing(
            converter.crop_to_aspect_ratio, converter.interpolation, converter.antialias
        ),
    )


def _class_names(
    given: Sequence[str], config: Mapping[str, Any], classes: int, preset: str
) -> list[str]:
    own = config.get("id2label", {})
    names = list(given) or [own[key] for key in sorted(own, key=int)]
    if len(names) != classes:
        raise ExportError(
            f"{preset} has {classes} classes and there are {len(names)} names for them; "
            "give a file with one a line by --labels"
        )
    return names


def _freeze(model: keras.Model, preset: str) -> Function:
    """The network with constants for variables, which all functions share by
    reference: `images` -> {"scores"}.

    `freezing.freeze` copies the weights about twenty times in protocol buffers:
    7.3 GB for the 346 MB of a ViT-base.
    """
    activation = keras.activations.get(model.activation)
    if activation not in (keras.activations.softmax, keras.activations.linear):
        raise ExportError(f"{preset} ends in {activation.__name__}; expected logits or a softmax")
    trainable = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]
    others = [tf.convert_to_tensor(variable.value) for variable in model.non_trainable_variables]
    check_size([*trainable, *others])

    def network(images: tf.Tensor) -> Tensors:
        answer, _ = model.stateless_call(trainable, others, images, training=False)
        answer = tf.cast(answer, tf.float32)
        return {
            "scores": layers.softmax(answer) if activation is keras.activations.linear else answer
        }

    images = tf.TensorSpec(model.input_shape, tf.float32, "images")
    return tf.function(network, autograph=False).get_concrete_function(images)
