"""Tiny vision transformers made on the spot: a KerasHub classifier, and a Hugging Face checkpoint whose answers NumPy has too."""

import json
import re
from pathlib import Path

import h5py
import keras
import keras_hub
import numpy as np
import tensorflow as tf
from exported import png
from photos import striped
from PIL import Image
from safetensors.numpy import save_file

SIZE = (32, 32)
PATCH, LAYERS, HEADS, HIDDEN, MLP = 8, 2, 2, 16, 32
NAMES = ["tabby", "tench", "goldfish", "hen", "ostrich"]
# Each channel of its own, and none a half: a constant in their place would be seen.
MEAN, DEVIATION = np.array([0.45, 0.55, 0.4]), np.array([0.25, 0.3, 0.5])


def photos(count: int) -> list[bytes]:
    """PNG files, wide, high and square, of many colours."""
    colours = np.random.default_rng(11).integers(0, 256, (count, 3))
    sizes = [(30 + 3 * number % 80, 30 + 7 * number % 50) for number in range(count)]
    return [png(np.asarray(striped(tuple(colours[number]), number, sizes[number]))) for number in range(count)]


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


def hugging_face(folder: Path, classes: int = 12, **config: object) -> dict[str, np.ndarray]:
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
    (folder / "config.json").write_text(json.dumps({**described, **config}))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    weights = _weights(classes)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return weights


def tensorflow_checkpoint(folder: Path, classes: int = 12) -> dict[str, np.ndarray]:
    """The same checkpoint as TFViTForImageClassification.save_pretrained writes it: config.json and tf_model.h5, no processor.

    Returns the weights by their names in safetensors.
    """
    weights = hugging_face(folder, classes)
    (folder / "model.safetensors").unlink()
    (folder / "preprocessor_config.json").unlink()
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, value in weights.items():
            layer, *parts = re.sub(r"layer\.(\d+)", r"layer_._\1", name).split(".")
            keras_names = {"weight": "gamma", "bias": "beta"} if "layernorm" in name else {"weight": "kernel"}
            last = keras_names.get(parts[-1], parts[-1])
            kernel = value.transpose((2, 3, 1, 0) if value.ndim == 4 else (1, 0)) if last == "kernel" else value
            path = "/".join([layer, "tf_vi_t_for_image_classification", layer, *parts[:-1], f"{last}:0"])
            file.create_dataset(path, data=kernel)
    return weights


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
        linear = {f"attention.attention.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        linear |= {"attention.output.dense": (HIDDEN, HIDDEN)}
        linear |= {"intermediate.dense": (MLP, HIDDEN), "output.dense": (HIDDEN, MLP)}
        for name, shape in linear.items():
            shapes |= {f"{prefix}.{name}.weight": shape, f"{prefix}.{name}.bias": shape[:1]}
        for name in ("layernorm_before", "layernorm_after"):
            shapes |= {f"{prefix}.{name}.weight": (HIDDEN,), f"{prefix}.{name}.bias": (HIDDEN,)}
    generator = np.random.default_rng(1)
    return {name: _random(name, shape, generator) for name, shape in shapes.items()}


def hugging_face_probabilities(
    weights: dict[str, np.ndarray], pictures: list[Image.Image], mean: np.ndarray, deviation: np.ndarray
) -> np.ndarray:
    """What that network says of RGB pictures, (n, classes), by the formulas of the paper and of Hugging Face's processor."""
    logits = np.stack([_logits(weights, _processed(picture, mean, deviation)) for picture in pictures])
    return tf.nn.softmax(logits).numpy()


def _processed(picture: Image.Image, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Squashed by Pillow's bilinear filter, in floating point, and normalised: (3, h, w)."""
    squashed = [
        np.asarray(channel.convert("F").resize(SIZE[::-1], Image.Resampling.BILINEAR)) for channel in picture.split()
    ]
    return (np.stack(squashed) / 255 - mean[:, None, None]) / deviation[:, None, None]


def _logits(weights: dict[str, np.ndarray], image: np.ndarray) -> np.ndarray:
    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def heads(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), HEADS, -1).swapaxes(0, 1)

    rows, columns = (side // PATCH for side in SIZE)
    patches = image.reshape(3, rows, PATCH, columns, PATCH).transpose(1, 3, 0, 2, 4).reshape(rows * columns, -1)
    kernel = weights["vit.embeddings.patch_embeddings.projection.weight"].reshape(HIDDEN, -1)
    embedded = patches @ kernel.T + weights["vit.embeddings.patch_embeddings.projection.bias"]
    x = np.concatenate([weights["vit.embeddings.cls_token"][0], embedded])
    x = x + weights["vit.embeddings.position_embeddings"][0]
    for layer in range(LAYERS):
        prefix = f"vit.encoder.layer.{layer}"
        attention = f"{prefix}.attention.attention"
        before = norm(f"{prefix}.layernorm_before", x)
        query, key, value = (heads(linear(f"{attention}.{part}", before)) for part in ("query", "key", "value"))
        seen = tf.nn.softmax(query @ key.swapaxes(1, 2) / np.sqrt(HIDDEN // HEADS)).numpy() @ value
        x = x + linear(f"{prefix}.attention.output.dense", seen.swapaxes(0, 1).reshape(len(x), HIDDEN))
        inner = tf.nn.gelu(linear(f"{prefix}.intermediate.dense", norm(f"{prefix}.layernorm_after", x))).numpy()
        x = x + linear(f"{prefix}.output.dense", inner)
    return linear("classifier", norm("vit.layernorm", x)[0])
