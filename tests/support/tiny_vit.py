"""Tiny vision transformers made on the spot: a KerasHub classifier, and a Hugging Face checkpoint."""

import json
import re
from pathlib import Path

import h5py
import keras
import keras_hub
import numpy as np
import tensorflow as tf
from PIL import Image
from safetensors.numpy import save_file

from support.exported import png
from support.photos import striped

SIZE = (32, 32)
PATCH, LAYERS, HEADS, HIDDEN, MLP = 8, 2, 2, 16, 32
NAMES = ["tabby", "tench", "goldfish", "hen", "ostrich"]
# Each channel of its own, and none a half: a constant in their place would be seen.
MEAN, DEVIATION = np.array([0.45, 0.55, 0.4]), np.array([0.25, 0.3, 0.5])


def photos(count: int) -> list[bytes]:
    """PNG files, wide, high and square, of many colours."""
    colours = np.random.default_rng(11).integers(0, 256, (count, 3))
    sizes = [(30 + 3 * number % 80, 30 + 7 * number % 50) for number in range(count)]
    return [
        png(np.asarray(striped(tuple(colours[number]), number, sizes[number])))
        for number in range(count)
    ]


def network(channels_first: bool = False, activation: str | None = None) -> keras.Model:
    """A KerasHub ViT image classifier with its preprocessor; random weights that tell photos apart."""
    keras.utils.set_random_seed(3)
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(3, *SIZE) if channels_first else (*SIZE, 3),
        patch_size=PATCH,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=HIDDEN,
        mlp_dim=MLP,
        data_format="channels_first" if channels_first else "channels_last",
    )
    converter = keras_hub.layers.ViTImageConverter(
        image_size=SIZE, scale=(1 / (255 * DEVIATION)).tolist(), offset=(-MEAN / DEVIATION).tolist()
    )
    task = keras_hub.models.ViTImageClassifier(
        backbone=backbone,
        num_classes=len(NAMES),
        preprocessor=keras_hub.models.ViTImageClassifierPreprocessor(image_converter=converter),
        activation=activation,
    )
    generator = np.random.default_rng(1)
    task.set_weights([_random(weight.path, weight.shape, generator) for weight in task.weights])
    return task


def _random(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Such that the photo decides on the answer: what every photo has in common stays small."""
    noise = generator.normal(0, 1, shape).astype(np.float32)
    if name.endswith("gamma") or ("layernorm" in name and name.endswith("weight")):
        return 1 + 0.2 * noise
    if name.endswith(("bias", "beta")) or "token" in name or "position" in name:
        return 0.1 * noise
    return (0.5 if "predictions" in name or "classifier" in name else 0.3) * noise


def hugging_face(folder: Path, classes: int = 12) -> dict[str, np.ndarray]:
    """Write a checkpoint as Hugging Face's ViTForImageClassification has it on disk; returns its weights by their names."""
    folder.mkdir(parents=True)
    described = {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "image_size": SIZE[0],
        "patch_size": PATCH,
        "num_channels": 3,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "qkv_bias": True,
        # In the order that sorting as text gives, not in that of the numbers.
        "id2label": {number: f"class {number}" for number in sorted(map(str, range(classes)))},
    }
    processor = {
        "do_resize": True,
        "size": {"height": SIZE[0], "width": SIZE[1]},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": MEAN.tolist(),
        "image_std": DEVIATION.tolist(),
        "image_processor_type": "ViTImageProcessor",
    }
    (folder / "config.json").write_text(json.dumps(described))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    weights = _weights(classes)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return weights


def tensorflow_checkpoint(folder: Path) -> None:
    """The same checkpoint as TFViTForImageClassification.save_pretrained writes it: config.json and tf_model.h5, no processor."""
    weights = hugging_face(folder)
    (folder / "model.safetensors").unlink()
    (folder / "preprocessor_config.json").unlink()
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, value in weights.items():
            layer, *parts = re.sub(r"layer\.(\d+)", r"layer_._\1", name).split(".")
            keras_names = (
                {"weight": "gamma", "bias": "beta"} if "layernorm" in name else {"weight": "kernel"}
            )
            last = keras_names.get(parts[-1], parts[-1])
            kernel = (
                value.transpose((2, 3, 1, 0) if value.ndim == 4 else (1, 0))
                if last == "kernel"
                else value
            )
            path = "/".join(
                [layer, "tf_vi_t_for_image_classification", layer, *parts[:-1], f"{last}:0"]
            )
            file.create_dataset(path, data=kernel)


def _weights(classes: int) -> dict[str, np.ndarray]:
    shapes = {
        "vit.embeddings.cls_token": (1, 1, HIDDEN),
        "vit.embeddings.position_embeddings": (1, (SIZE[0] // PATCH) ** 2 + 1, HIDDEN),
        "vit.embeddings.patch_embeddings.projection.weight": (HIDDEN, 3, PATCH, PATCH),
        "vit.embeddings.patch_embeddings.projection.bias": (HIDDEN,),
        "vit.layernorm.weight": (HIDDEN,),
        "vit.layernorm.bias": (HIDDEN,),
        "classifier.weight": (classes, HIDDEN),
        "classifier.bias": (classes,),
    }
    for layer in range(LAYERS):
        prefix = f"vit.encoder.layer.{layer}"
        linear = {
            f"attention.attention.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")
        }
        linear |= {"attention.output.dense": (HIDDEN, HIDDEN)}
        linear |= {"intermediate.dense": (MLP, HIDDEN), "output.dense": (HIDDEN, MLP)}
        for name, shape in linear.items():
            shapes |= {f"{prefix}.{name}.weight": shape, f"{prefix}.{name}.bias": shape[:1]}
        for name in ("layernorm_before", "layernorm_after"):
            shapes |= {f"{prefix}.{name}.weight": (HIDDEN,), f"{prefix}.{name}.bias": (HIDDEN,)}
    generator = np.random.default_rng(1)
    return {name: _random(name, shape, generator) for name, shape in shapes.items()}


def hugging_face_probabilities(
    checkpoint: Path, pictures: list[Image.Image], mean: np.ndarray, deviation: np.ndarray
) -> np.ndarray:
    """What KerasHub's own model says of RGB pictures, (n, classes), each squashed as Hugging Face's processor does: by Pillow's
    bilinear filter, in floating point. `checkpoint`: one in safetensors.
    """
    network = keras_hub.models.ViTImageClassifier.from_preset(str(checkpoint), preprocessor=None)
    channels = [[channel.convert("F") for channel in picture.split()] for picture in pictures]
    squashed = [
        [each.resize(SIZE[::-1], Image.Resampling.BILINEAR) for each in picture]
        for picture in channels
    ]
    images = np.stack([np.stack(picture, axis=-1) for picture in squashed])
    return tf.nn.softmax(network.predict((images / 255 - mean) / deviation, verbose=0)).numpy()
