"""Writes version folders: a trained network as a SavedModel that describes
itself and runs in any TensorFlow Serving.
"""

import base64
import gc
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from dogsnap.allocator import give_back_free
from dogsnap.exporting import SECOND_OPINION, TAUGHT, Report, layers
from dogsnap.exporting.acceleration import Acceleration, Steps, accelerate
from dogsnap.exporting.freezing import Source, freeze
from dogsnap.exporting.layers import Tensors
from dogsnap.exporting.publication import WRITING, publish
from dogsnap.exporting.quantization import RANGES
from dogsnap.files import read_text, write_json
from dogsnap.networks import dogs_head as dogs
from dogsnap.networks import orientation, second_opinion
from dogsnap.networks.architectures import (
    ARCHITECTURES,
    STORED_WEIGHTS,
    heads,
    load_stored_weights,
)
from dogsnap.networks.dog_score import DogHead
from dogsnap.networks.every_dog import CELLS
from dogsnap.networks.groups import named_groups
from dogsnap.networks.looks import LAYER as LOOKS
from dogsnap.networks.looks import Looks
from dogsnap.networks.popularity import further_prior
from dogsnap.networks.second_opinion import SecondOpinion
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.photos.photo import ORIENTATION
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.warmup import RECORDS_FILE

GROUPS_FILE = "groups.json"
POPULARITY_FILE = "popularity.json"
# of the photos that trained: see `training.class_statistics`
STATISTICS_FILE = "class_statistics.npz"

# What `read_json` says of a file of a trained network that does not exist.
NOT_TRAINED = "does not exist; `python -m lab train` or `python -m lab calibrate` writes it"
INT8_RANGES = "int8_ranges"  # in a version's description: what `quantization.Ranges` holds


class ExportError(ValueError):
    """The files to export are missing or do not fit; the message says what to do."""


@dataclass(frozen=True)
class Stored:
    """What training stored: a classifier in float32, which gives {"breeds":
    logits (n, classes), "dog": logits (n, 1)}, its calibration, and its
    versions' description.

    `dogs`: the head that finds every dog (see `networks.dogs_head`), `looks`:
    how much photos look like each breed, and `opinion`: the network beside it;
    None without one.
    """

    model: keras.Model
    calibration: Calibration
    description: Mapping[str, Any]
    dogs: keras.Model | None = None
    looks: Looks | None = None
    opinion: SecondOpinion | None = None

    def export(self, model_folder: Path, report: Report = lambda _: None) -> Source:
        """Write it as the next version of `model_folder`.

        Signatures: `serving_default`, image float32 (n, h, w, 3) in [0, 1] ->
        prediction float32 (n, classes), probabilities by the calibration;
        `scores`, the same and dog float32 (n), the probability that the image
        shows a dog at all, and, if the network gives it, box float32 (n, 4),
        where: left, top, right, bottom, fractions of the picture; with a head
        that finds every dog, its output, too, of which `dogsnap merge
        --second-pass` makes every dog; with one that tells which way is up,
        orientation float32 (n, 4), see `networks.orientation`. Where the description says that the
        subject is no dogs, `scores` has the prediction alone.
        """
        model = self._build_network()
        height, width, channels = model.input_shape[1:]
        image = tf.TensorSpec((None, height, width, channels), tf.float32, name="image")
        is_of_dogs = self.description.get("subject") != "other"

        def all_scores(*, image: tf.Tensor) -> Tensors:
            logits = model(image, training=False)
            prediction = self.calibration.probabilities(
                logits["breeds"], layers.softmax, logits.get(LOOKS)
            )
            answers = {"prediction": prediction}
            if not is_of_dogs:
                return answers
            answers["dog"] = tf.sigmoid(tf.cast(logits["dog"][:, 0], tf.float32))
            further = ("box", CELLS, ORIENTATION)
            return answers | {name: logits[name] for name in further if name in logits}

        def prediction(*, image: tf.Tensor) -> Tensors:
            return {"prediction": scores(image=image)["prediction"]}

        scores = tf.function(all_scores, autograph=False).get_concrete_function(image=image)
        default = tf.function(prediction, autograph=False).get_concrete_function(image=image)
        signatures = {"serving_default": default, "scores": scores}
        module = tf.Module()
        module.variables_of_the_network = [variable.value for variable in model.variables]
        graph = freeze(scores)
        # No steps before or after the network.
        steps = {
            "serving_default": Steps("image", ["prediction"]),
            "scores": Steps("image", list(graph.outputs)),
        }
        acceleration = Acceleration(graph, graph.function(), steps)
        grey = {"image": np.full((1, height, width, channels), 0.5, np.float32)}
        warmup = dict.fromkeys(signatures, grey)
        folder = write_version(
            model_folder, module, signatures, self.description, warmup, acceleration, report
        )
        return Source(folder, signatures, {"scores": graph})

    def _build_network(self) -> keras.Model:
        """The classifier with all that answers beside it."""
        model = self.model
        if self.opinion:
            model = second_opinion.with_features(model)
        if self.looks:
            model = self.looks.add_to(model)
        if self.dogs:
            model = dogs.with_dogs(model, self.dogs)
        if self.opinion:  # last, since it sees the image itself, which the others do not
            head = DogHead.of(self.description["scores"]["dog_head"])
            model = self.opinion.add_to(model, head, self.description.get("taught", ()))
        return model


@dataclass(frozen=True)
class Trained:
    """A trained network in a folder such as models/inception_v3: its
    `architecture`, the `size` (height, width) of the images that it takes, the
    `labels` of its classes, its `recipe`, and the file of its `weights`.
    """

    architecture: str
    size: tuple[int, int]
    labels: list[dict[str, str]]
    recipe: Mapping[str, Any]
    weights: Path

    @classmethod
    def read(cls, folder: Path, name: str) -> "Trained":
        """`name`: of the architecture, where the recipe names none. Raises ExportError."""
        file = folder / "recipe.json"
        recipe = read_fields(file, "size")
        labels = read_json(folder / "labels.json", NOT_TRAINED)
        architecture = recipe.get("architecture", name)
        if architecture not in ARCHITECTURES:
            raise ExportError(
                f"{file} asks for the architecture {architecture!r}; "
                f"available: {', '.join(ARCHITECTURES)}"
            )
        height, width = recipe["size"]
        return cls(architecture, (height, width), labels, recipe, folder / STORED_WEIGHTS)

    def build(self, classes: int) -> keras.Model:
        """A network of this architecture with random weights."""
        return ARCHITECTURES[self.architecture](classes, self.size)

    def load(self) -> keras.Model:
        """The network with its weights. Raises FileNotFoundError, or ValueError
        where they do not fit.
        """
        model = self.build(len(self.labels))
        load_stored_weights(model, self.weights)
        return model


def export_stored(
    name: str, artefacts: Path, models: Path, report: Report = lambda _: None
) -> Source:
    """Build the next version of models/<name> from the files in `artefacts`:
    float16 weights, labels, recipe, scores.

    Groups of look-alikes get their names from groups.json in the parent folder
    of `artefacts`. `report` is told the runtime. Raises ExportError, OSError or
    ValueError for missing files, or those of another network.
    """
    return read_stored(name, artefacts).export(models / name, report)


def read_answering(name: str, artefacts: Path) -> Stored:
    """The classifier of the version that answers the app, with what is stored
    for it alone: the opinion of the network beside this one, and behind its own
    the breeds that the calibration or `teach --keep` stored.

    Raises ExportError where either was made with other weights.
    """
    stored = read_stored(name, artefacts, with_opinion=True)
    return _with_taught(stored, artefacts) if (artefacts / TAUGHT).is_file() else stored


def _with_taught(stored: Stored, artefacts: Path) -> Stored:
    file = artefacts / TAUGHT
    kept = read_json(file)
    advice = "run `python -m lab calibrate --taught` or `dogsnap teach --keep`"
    check_made_with(kept["weights"], stored.description["scores"].get("weights", ""), file, advice)
    taught = kept["taught"]
    labels = list(stored.description["labels"])
    teaching = []
    for breed in taught:
        names = {"name": breed["name"], "name_zh": breed["name_zh"]}
        labels.append({"id": breed["id"], **names})
        teaching.append({key: value for key, value in breed.items() if key not in names})
    kernel, bias = breed_weights(stored.model, taught)
    prior = prior_of(stored, labels, artefacts)
    extended = with_classes(stored, labels, kernel, bias, prior)
    own = kept.get("scores", {})
    if own:
        beside = stored.opinion.sha256 if stored.opinion else ""
        what = "the network beside it"
        check_made_with(kept.get(second_opinion.FIELD, ""), beside, file, advice, what)
    scores = {**stored.description["scores"], **own}
    calibration = extended.calibration
    fitted = scores["calibration"] if own else {"groups": kept["groups"]}
    description = {
        **extended.description,
        "scores": scores,
        "groups": stated_groups(fitted, artefacts, labels),
        "taught": teaching,
    }
    if "dog_head" in own and not stored.opinion:
        DogHead.of(scores["dog_head"]).put_into(extended.model)
    if own:
        description["decision"] = Decision.read(fitted).to_json()
        calibration = Calibration.of(fitted, len(labels))
    looks = read_looks(calibration, artefacts, stored.description, taught)
    return replace(extended, calibration=calibration, description=description, looks=looks)


def read_stored(
    name: str, artefacts: Path, with_head: bool = True, with_opinion: bool = False
) -> Stored:
    """The classifier that training stored in `artefacts`, `with_head` with that
    which finds every dog, and `with_opinion` with the network beside it and
    what was fitted on both, if they are there.

    Raises ExportError, OSError or ValueError for missing artefacts, and for
    those of other weights.
    """
    trained = Trained.read(artefacts, name)
    recipe = trained.recipe
    labels = trained.labels
    scores = read_fields(artefacts / "scores.json", "calibration")
    model = trained.load()
    weights = checksums.digest(trained.weights)
    check_made_with(
        scores.get("weights", weights),
        weights,
        artefacts / "scores.json",
        "run `python -m lab calibrate`",
    )
    if "dog_head" in scores:
        DogHead.of(scores["dog_head"]).put_into(model)
    opinion = None
    ranges_file = artefacts / RANGES
    if with_opinion and (artefacts / SECOND_OPINION).is_file():
        ranges_file = artefacts / SECOND_OPINION
        both = read_json(ranges_file)
        opinion = read_opinion(both, artefacts, weights)
        scores = {**scores, **both["scores"]}
    calibration = scores["calibration"]
    description: dict[str, Any] = {
        "model": name,
        "labels": labels,
        "input_size": list(trained.size),
        "decision": Decision.read(calibration).to_json(),
        "groups": stated_groups(calibration, artefacts, labels),
        "recipe": recipe,
        "scores": scores,
        "source": {"weights": STORED_WEIGHTS, "exported_by": "dogsnap export"},
    }
    if "subject" in recipe:
        description["subject"] = recipe["subject"]
    if opinion:
        description[second_opinion.FIELD] = {**both["network"], "weight": opinion.weight}
    if ranges_file.is_file():
        ranges = read_json(ranges_file)
        description[INT8_RANGES] = ranges = ranges[INT8_RANGES] if opinion else ranges
        advice = "run `python -m lab calibrate`, or remove the file: then no int8 network is built"
        check_made_with(ranges.get("weights", ""), scores.get("weights", ""), ranges_file, advice)
    head = None
    if with_head and (artefacts / dogs.DESCRIPTION).is_file():
        description["dogs"] = stated = read_json(artefacts / dogs.DESCRIPTION)
        advice = "run `python -m lab train dogs` again, or remove the file"
        check_made_with(
            stated.get("maps", ""),
            dogs.digest_of(model),
            artefacts / dogs.DESCRIPTION,
            advice,
            "maps",
        )
        head = dogs.head_for(model, stated["filters"])
        load_stored_weights(head, artefacts / dogs.WEIGHTS)
    scaling = Calibration.of(calibration, len(labels))
    looks = read_looks(scaling, artefacts, description)
    return Stored(model, scaling, description, head, looks, opinion)


def read_opinion(both: Mapping[str, Any], artefacts: Path, weights: str) -> SecondOpinion:
    """The network beside that of these `weights`, as the file `both` describes
    it. Raises ExportError.
    """
    stated = both["network"]
    file = artefacts / second_opinion.WEIGHTS
    described = artefacts / SECOND_OPINION
    advice = "run `python -m lab calibrate --opinion`"
    check_made_with(both.get("weights", ""), weights, described, advice)
    network = second_opinion.NETWORKS[stated["architecture"]](stated["classes"])
    _load_described(network, file, stated["sha256"], described, advice)
    head = None
    if ORIENTATION in both:
        head = orientation.head_for(network)
        advice = "run `python -m lab train orientation`"
        file = artefacts / orientation.WEIGHTS
        _load_described(head, file, both[ORIENTATION]["sha256"], described, advice)
    return SecondOpinion.of(network, both, head)


def _load_described(
    model: keras.Model, file: Path, digest: str, described: Path, advice: str
) -> None:
    """Load stored weights. Raises ExportError where the file `described` tells
    of others.
    """
    load_stored_weights(model, file)
    received = checksums.digest(file)
    if received != digest:
        raise ExportError(
            f"{file} is another network than {described} describes: expected the "
            f"SHA-256 {digest[:12]}, received {received[:12]}; {advice}"
        )


def read_looks(
    calibration: Calibration,
    artefacts: Path,
    description: Mapping[str, Any],
    taught: Sequence[Mapping[str, Any]] = (),
) -> Looks | None:
    """How much photos look like each breed, `taught` ones behind the others;
    None where `calibration` asks for no looks, or where a breed was taught by
    an earlier release, which did not keep its mean. Raises ExportError.
    """
    if calibration.sureness is None:
        return None
    file = artefacts / STATISTICS_FILE
    if not file.is_file():
        raise ExportError(f"{file} does not exist; run `python -m lab calibrate`, which writes it")
    with np.load(file) as arrays:
        received = str(arrays["weights"])
    expected = description["scores"].get("weights", "")
    check_made_with(received, expected, file, "run `python -m lab calibrate`")
    return Looks.read(file, taught)


def check_made_with(
    received: str,
    expected: str,
    file: Path,
    advice: str,
    what: str = "weights",
) -> None:
    """Raises ExportError, naming both, where two digests differ."""
    if received != expected:
        raise ExportError(
            f"{file} was made with other {what} than {STORED_WEIGHTS}: expected the "
            f"SHA-256 {expected[:12] or 'none'}, "
            f"received {received[:12] or 'none'}; {advice}"
        )


def prior_of(stored: Stored, labels: Sequence[Mapping[str, Any]], artefacts: Path) -> np.ndarray:
    """The prior of `labels`, the classifier's breeds and further ones behind
    them, by popularity.json in the parent folder.
    """
    known = stored.description["labels"]
    prior = np.asarray(stored.calibration.log_prior)
    return further_prior(known, prior, labels[len(known) :], artefacts.parent / POPULARITY_FILE)


def with_classes(
    stored: Stored,
    labels: Sequence[Mapping[str, Any]],
    kernel: np.ndarray,
    bias: np.ndarray,
    log_prior: np.ndarray,
) -> Stored:
    """The same network with the classes `labels`, those of `kernel` float32 (f,
    classes), `bias` (classes,) and `log_prior` (classes,), instead of its own.
    All layers below the heads are shared.
    """
    features = stored.model.get_layer("features").output
    model = keras.Model(
        stored.model.input,
        stored.model.output | heads(features, len(labels), dropout=0.0),
        name=stored.model.name,
    )
    model.get_layer("breeds").set_weights([kernel, bias])
    model.get_layer("dog").set_weights(stored.model.get_layer("dog").get_weights())
    calibration = replace(stored.calibration, log_prior=log_prior)
    description = {**stored.description, "labels": [dict(label) for label in labels]}
    return replace(stored, model=model, calibration=calibration, description=description)


def breed_weights(
    model: keras.Model, taught: Sequence[Mapping[str, Any]]
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel float32 (f, classes) and bias (classes,) of the breeds, those of
    `taught` ones behind the network's own.
    """
    kernel, bias = model.get_layer("breeds").get_weights()
    columns = [kernel]
    for breed in taught:
        row = base64.b64decode(breed["weights"])
        # of float16, or of float32 as earlier releases wrote it
        kind = np.float32 if len(row) == 4 * len(kernel) else np.float16
        columns.append(np.frombuffer(row, kind).astype(np.float32))
        bias = np.append(bias, np.float32(breed["bias"]))
    return np.column_stack(columns), bias


def stated_groups(
    calibration: Mapping[str, Any], artefacts: Path, labels: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The groups of a calibration, as a description states them: with the names that somebody
    wrote for them in the parent folder.
    """
    file = artefacts.parent / GROUPS_FILE
    written = read_json(file) if file.is_file() else []
    return [asdict(group) for group in named_groups(calibration.get("groups", ()), written, labels)]


def read_fields(path: Path, *needed: str) -> dict[str, Any]:
    """An object of JSON that training stored, with these fields. Raises ExportError."""
    fields = read_json(path, NOT_TRAINED)
    stated = fields if isinstance(fields, dict) else {}
    if lacking := [name for name in needed if name not in stated]:
        raise ExportError(
            f"{path} has no {lacking[0]}; expected what `dogsnap train` or `python -m lab train` "
            "writes"
        )
    return stated


def read_json(path: Path, missing: str = "does not exist") -> Any:
    """Raises ExportError; `missing` is what it says of a file that does not exist."""
    try:
        return json.loads(read_text(path))
    except FileNotFoundError as error:
        raise ExportError(f"{path} {missing}") from error
    except ValueError as error:
        raise ExportError(f"{path} is no JSON: {error}") from error


def write_version(
    model_folder: Path,
    module: tf.Module,
    signatures: Mapping[str, Callable[..., Any]],
    description: Mapping[str, Any],
    warmup: Mapping[str, Mapping[str, np.ndarray]],
    acceleration: Acceleration | None = None,
    report: Report = lambda _: None,
) -> Path:
    """Save `module` as the next free version below `model_folder`; the version
    folder appears atomically.

    `signatures`: tf.functions with input signatures, saved with method
    tensorflow/serving/predict. `description`: goes to
    assets.extra/dogsnap.json, if there is one. `warmup`: by signature name, the
    inputs of a warm-up request. `acceleration`: the network alone, for a faster
    runtime; `report` is told the result. Raises OSError when the disk is full.
    """
    model_folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=WRITING, dir=model_folder) as temporary:
            folder = Path(temporary) / "version"
            tf.saved_model.save(module, str(folder), signatures=dict(signatures))
            # Reference cycles hold graphs with all constants, and glibc keeps freed
            # memory: 0.1 GB less for Inception v3.
            gc.collect()
            give_back_free()
            (folder / "assets.extra").mkdir()
            if description:
                write_json(description, folder / DESCRIPTION_FILE)
            write_warmup_requests(folder / RECORDS_FILE, model_folder.name, warmup)
            if acceleration is not None:
                accelerate(folder, acceleration, report)
            checksums.write(folder)
            return publish(folder, model_folder)
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(
            f"{error.message}; nothing was exported, free some disk space and try again"
        ) from error


def write_warmup_requests(
    path: Path, model: str, requests: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Write one PredictionLog per signature, in TensorFlow Serving's format: a
    TFRecord file of serialized records.
    """
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests.items():
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model
            request.model_spec.signature_name = signature
            for alias, value in inputs.items():
                request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
