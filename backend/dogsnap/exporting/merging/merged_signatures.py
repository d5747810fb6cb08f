"""Puts decoding in front of a frozen network, and answers in the wanted form
behind it: the signatures of a merged version.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from dogsnap.exporting import Report, layers
from dogsnap.exporting.acceleration import Acceleration, Steps, takes_images_of_one_size
from dogsnap.exporting.freezing import Function, Source
from dogsnap.exporting.layers import Tensors
from dogsnap.exporting.merging.image_input import (
    NetworkInput,
    Specs,
    check_choice,
    inputs_of,
    kind_of,
    layout_of,
)
from dogsnap.exporting.merging.input_range import checked_range
from dogsnap.exporting.merging.options import MergeError, Options
from dogsnap.exporting.quantization import Ranges
from dogsnap.networks.every_dog import CELLS, EveryDog
from dogsnap.networks.second_pass import SecondPass, second_images
from dogsnap.serving.photos.preprocessing import ROWS, WINDOWS, decode_base64, images_and_picture
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE
from dogsnap.serving.versions.openvino_runtime import PICTURE, SECOND

# A signature: its input, and the function from the network's outputs to its outputs.
SignatureParts: TypeAlias = tuple[str, Callable[[Tensors], Tensors]]
Passing: TypeAlias = SecondPass | EveryDog

# by convention an input with this suffix takes the bytes of files, and others take base64 text
BYTES = "_bytes"
PNG_CHANNELS = (1, 3, 4)
# The names of TensorFlow's Object Detection API: the option that chooses each, a word
# in an output's name, and what is expected.
DETECTIONS = {
    "detection_boxes": ("boxes", "box", "boxes (n, k, 4)"),
    "detection_classes": ("classes", "class", "a class per box (n, k)"),
    "detection_scores": ("scores", "score", "a score per box (n, k)"),
}
# Names that nobody chose. Keras counts them through a process: the same network has
# others when it is exported again.
LAYERS = (
    "batch_normalization|conv2d|dense|functional|global_average_pooling2d|global_max_pooling2d|input_layer|keras_layer|keras_tensor|"
    "rescaling|sequential|zero_padding2d"
)
ORDINARY = "activation|args|dropout|flatten|input|model|normalization|output|random_\\w+|reshape|resizing|softmax"
GENERATED = re.compile(rf"(?:(?:{LAYERS})(?:_\d+)?|(?:{ORDINARY})_\d+)(?:_input)?")
COUNTED = re.compile(r".*?(\d+)(?:_input)?")
TOP_K = 5
# The parts of photos that get a second pass, the indices of these photos, and the
# picture if there is only one.
PLANNED = {
    WINDOWS: tf.TensorSpec((None, 4), tf.float32),
    ROWS: tf.TensorSpec((None,), tf.int64),
    PICTURE: tf.TensorSpec((None, None, 3), tf.uint8),
}
OF_ONE = 0.01  # by which probabilities of one class a photo may miss 1 together
IMAGE = "image"  # the input for photos
PREDICTION = "prediction"  # the output by which a server names classes
TRIAL_SIZE = (64, 64)  # of test pictures and warm-up requests for a network that takes any size


def noise_images(count: int, wanted: layers.ImageInput) -> tf.Tensor:
    """Random images in the network's layout: (count, h, w, c) or (count, c, h, w)."""
    return layers.fit(
        tf.random.stateless_uniform((count, *(wanted.size or TRIAL_SIZE), 3), (1, 2)), wanted
    )


def warmup_requests(
    signatures: Mapping[str, Function], size: tuple[int, int] | None
) -> dict[str, dict[str, np.ndarray]]:
    """One request per signature: a grey photo of `size`, as bytes or base64
    text, and zeros for further inputs.
    """
    photo = tf.io.encode_jpeg(tf.fill((*(size or TRIAL_SIZE), 3), tf.constant(128, tf.uint8)))
    strings = {True: photo, False: tf.io.encode_base64(photo)}

    def example(alias: str, spec: tf.TensorSpec) -> np.ndarray:
        if spec.dtype == tf.string:
            return np.array([strings[alias.endswith(BYTES)].numpy()])
        return np.zeros([size or 1 for size in spec.shape], spec.dtype.as_numpy_dtype)

    requests: dict[str, dict[str, np.ndarray]] = {}
    for name, signature in signatures.items():
        inputs = inputs_of(signature)
        requests[name] = {}
        for alias, spec in inputs.items():
            requests[name][alias] = example(alias, spec)
    return requests


def trace(
    function: Callable[..., Tensors], alias: str | None = None, specs: Specs | None = None
) -> Function:
    """Trace `function`: its inputs are strings (n,) named `alias`, if any, and
    those in `specs`.
    """
    inputs = {alias: tf.TensorSpec((None,), tf.string, alias)} if alias else {}
    for name, spec in (specs or {}).items():
        inputs[name] = tf.TensorSpec(spec.shape, spec.dtype, name)
    return tf.function(function, autograph=False).get_concrete_function(**inputs)


def decode_contents(alias: str, contents: tf.Tensor) -> tf.Tensor:
    """The bytes of files from what the input `alias` takes."""
    return contents if alias.endswith(BYTES) else decode_base64(contents)


def is_one_number(spec: tf.TensorSpec, rank: int) -> bool:
    """Whether an output holds one number for each picture: (n, 1) or (n,) where
    class outputs have the rank 2.
    """
    if not spec.dtype.is_floating or spec.shape.rank is None:
        return False
    return spec.shape.rank == rank - 1 or (spec.shape.rank == rank and spec.shape[-1] == 1)


def lasting_names(names: Sequence[str], base: str) -> dict[str, str]:
    """By each name, the one to give it: generated ones are `base`_1,
    `base`_2... in their order; chosen ones stay.

    ["keras_tensor_9", "age", "keras_tensor_10"], "input" -> "input_1", "age",
    "input_2"
    """

    def count(name: str) -> int:
        match = COUNTED.fullmatch(name)
        return int(match[1]) if match else 0

    generated = sorted((name for name in names if GENERATED.fullmatch(name)), key=count)
    numbers = {name: f"{base}_{number}" for number, name in enumerate(generated, start=1)}
    return {name: numbers.get(name, name) for name in names}


class Merger:
    """The signatures of a merged version, made of layers around one frozen network."""

    def __init__(
        self,
        source: Source,
        richest: str,
        network_input: NetworkInput,
        wanted: layers.ImageInput,
        names: Sequence[str],
        options: Options,
        second_pass: Passing | None = None,
    ):
        self.second_pass = second_pass
        self.network_input = network_input
        self.wanted = wanted
        self.options = options
        self.names = list(names)
        self.outputs = source.signatures[richest].structured_outputs
        self.main_outputs = sorted(source.signatures[network_input.signature].structured_outputs)
        inputs = inputs_of(source.signatures[richest])
        further = [name for name in inputs if name != network_input.name]
        self.names_of_further = lasting_names(further, "input")
        self.further_inputs = {self.names_of_further[name]: inputs[name] for name in further}
        self.classes = "" if options.encode == "detections" else self._class_output()
        self.is_one_number = bool(self.classes) and self._is_one_number()
        self.image_output = self._image_output() if options.encode == "png" else ""
        self.given_names = source.given_names
        self.renamed = self._choose_names()
        self.output_range = (0.0, 1.0)
        self.classes_from = options.classes_from or 0
        self.graph = source.freeze_signature(richest)
        self.frozen = self.graph.function()
        self.network = self._network()
        self.parts = self._signature_parts(richest)
        aliases = dict.fromkeys(alias for alias, _ in self.parts.values())
        self.before = {alias: self._before(alias) for alias in aliases} if wanted.size else {}
        self.again = {alias: self._again(alias) for alias in self.before} if second_pass else {}

    def signatures(self) -> dict[str, Function]:
        """Every signature of the merged version by name; see `merge`."""
        signatures = {}
        for name, (alias, answer) in self.parts.items():
            signatures[name] = self._signature(alias, answer)
        return signatures

    def _signature_parts(self, richest: str) -> dict[str, SignatureParts]:
        parts: dict[str, SignatureParts] = {}
        text = raw = self.alias
        if self.options.decode != "bytes":
            raw = f"{text}{BYTES}"
            parts[raw] = (raw, self._main)
        parts[DEFAULT_SIGNATURE] = (text, self._main)
        if richest != self.network_input.signature:
            parts[richest] = (raw, self._all)
        if self.names and self.classes:
            parts["labels"] = (text, self._name_classes)
            if self.class_alias != PREDICTION:
                parts.setdefault("scores", (raw, self._prediction))
        return parts

    @property
    def alias(self) -> str:
        """The name of the input for photos in serving_default."""
        if self.options.decode == "bytes":
            return f"input{BYTES}"
        name = self.network_input.name
        given = self.network_input.given
        is_chosen = not GENERATED.fullmatch(name) and given.isascii()
        return name.removesuffix(BYTES) if is_chosen or IMAGE in self.further_inputs else IMAGE

    def acceleration(self, source: Path, ranges: Ranges | None) -> Acceleration | None:
        """The network of the version `source` and the steps around it, for a
        faster runtime; None if they cannot be separated.
        """
        if not takes_images_of_one_size(self.graph):
            if self.options.fast:
                raise MergeError(
                    "--fast needs a network that takes float32 images of one size and nothing else"
                )
            return None
        plan = combined = None
        if self.second_pass:
            plan = self._plan_passes(self.second_pass)
            combined = self._combine_passes(self.second_pass, plan.structured_outputs)
        given = combined.structured_outputs if combined else self.outputs
        steps = {}
        for name, (alias, answer) in self.parts.items():
            steps[name] = self._steps(alias, answer, given)
        return Acceleration(
            self.graph,
            self.frozen,
            steps,
            same_as=source,
            plan=plan,
            combined=combined,
            fast=self.options.fast,
            ranges=ranges,
            required=self.options.fast and not self.second_pass,
        )

    def _again(self, alias: str) -> Function:
        """A signature's input, the decoded picture, windows and the rows of
        their photos -> the images of the second pass.
        """

        def again(**inputs: tf.Tensor) -> Tensors:
            photos = tf.gather(decode_contents(alias, inputs[alias]), inputs[ROWS])
            size = self.wanted.fixed_size()
            picture = inputs[PICTURE]
            images = second_images(photos, inputs[WINDOWS], size, picture)
            return {self.network_input.name: layers.fit(images, self.wanted)}

        return trace(again, alias, PLANNED)

    def _after_second_pass(
        self,
        passing: Passing,
        first: Tensors,
        alias: str,
        contents: tf.Tensor,
        picture: tf.Tensor,
    ) -> Tensors:
        """The network's answers after both passes; `first`: to the whole photos
        in the input `alias`.
        """
        planned = passing.plan(first)
        photos = {alias: contents, PICTURE: picture}
        windows = {name: planned[name] for name in (WINDOWS, ROWS)}
        images = self.again[alias](**photos, **windows)[self.network_input.name]
        second = tf.cond(
            tf.shape(images)[0] > 0,
            lambda: self.network(images),
            lambda: {name: first[name][:0] for name in first},
        )
        return passing.combine(first, second, planned)

    def _plan_passes(self, passing: Passing) -> Function:
        """The first answers -> what the second pass is to see, perhaps nothing."""
        return trace(lambda **first: passing.plan(first), specs=self.outputs)

    def _combine_passes(self, passing: Passing, planned: Specs) -> Function:
        """`planned`: what `_plan_passes` gives."""

        def combine(**answers: tf.Tensor) -> Tensors:
            first = {name: answers[name] for name in self.outputs}
            second = {name: answers[SECOND + name] for name in self.outputs}
            return passing.combine(first, second, answers)

        second = {SECOND + name: spec for name, spec in self.outputs.items()}
        return trace(combine, specs={**self.outputs, **second, **planned})

    def _steps(self, alias: str, answer: Callable[[Tensors], Tensors], given: Specs) -> Steps:
        """`given`: what the network, or both passes of it, give."""
        after = trace(lambda **answers: answer(answers), specs=given)
        dtypes = {spec.dtype for spec in self.outputs.values()}
        plain = answer in (self._main, self._all) and not (
            self.options.softmax
            or self.options.sigmoid
            or self.options.encode
            or self.renamed
            or self.is_one_number
            or dtypes & set(layers.HALVES)
        )
        after_network = None if plain else after
        return Steps(
            alias,
            list(after.structured_outputs),
            self.before[alias],
            after_network,
            self.again.get(alias),
        )

    def _before(self, alias: str) -> Function:
        def before(**inputs: tf.Tensor) -> Tensors:
            contents = decode_contents(alias, inputs[alias])
            name = self.network_input.name
            if not self.second_pass:
                return {name: layers.images_from_bytes(contents, self.wanted)}
            size = self.wanted.fixed_size()
            how = self.wanted.resizing
            images, picture = images_and_picture(contents, size, how)
            return {name: layers.fit(images, self.wanted), PICTURE: picture}

        return trace(before, alias)

    def _network(self) -> Callable[..., Tensors]:
        order = sorted([self.network_input.name, *self.names_of_further])

        def run(images: tf.Tensor, **further: tf.Tensor) -> Tensors:
            fed = {name: further[alias] for name, alias in self.names_of_further.items()}
            fed[self.network_input.name] = images
            return self.frozen(*map(fed.get, order))

        batch = self.network_input.layout.batch
        if batch == "many":
            return run
        in_batch = self._outputs_in_batch() if batch == "one" else set[str]()
        return layers.one_by_one(run, self.outputs, batch == "one", in_batch)

    def _outputs_in_batch(self) -> set[str]:
        """The outputs of a network of one image that hold a batch of one as well. Of a
        detector the boxes tell it, (1, k, 4) or (k, 4): all others may be of open length.
        """
        boxes = next((old for old, new in self.renamed.items() if new == "detection_boxes"), "")
        if boxes and self.outputs[boxes].shape.rank == 2:
            return set()
        found = set()
        for name, spec in self.outputs.items():
            if spec.shape.rank is None or (spec.shape.rank and spec.shape[0] in (None, 1)):
                found.add(name)
        return found

    def _signature(self, alias: str, answer: Callable[[Tensors], Tensors]) -> Function:
        def signature(**inputs: tf.Tensor) -> Tensors:
            contents = inputs.pop(alias)
            if self.wanted.size is None:
                photos = decode_contents(alias, contents)
                return layers.map_ragged(
                    photos, self.wanted, lambda image: answer(self.network(image, **inputs))
                )
            decoded = self.before[alias](**{alias: contents})
            images = decoded[self.network_input.name]
            if inputs:
                return answer(self.network(images, **inputs))
            answers = layers.never_empty(self.network, images)
            if self.second_pass:
                answers = self._after_second_pass(
                    self.second_pass, answers, alias, contents, decoded[PICTURE]
                )
            return answer(answers)

        return trace(signature, alias, self.further_inputs)

    def _all(self, answers: Tensors) -> Tensors:
        answers = layers.in_float32(answers)
        if self.is_one_number:
            answers[self.classes] = layers.two_classes(answers[self.classes], self.options.softmax)
        elif self.options.softmax:
            answers[self.classes] = layers.softmax(answers[self.classes])
        elif self.options.sigmoid:
            answers[self.classes] = tf.sigmoid(answers[self.classes])
        if self.image_output:
            images = answers[self.image_output]
            layout = layout_of(self.outputs[self.image_output], PNG_CHANNELS, named=True)
            if layout and layout.channels_first:
                images = tf.transpose(images, (0, 2, 3, 1))
            answers[self.image_output] = layers.png_bytes(images, *self.output_range)
        if self.options.encode == "detections":
            classes = next(old for old, new in self.renamed.items() if new == "detection_classes")
            start = self.classes_from
            first = self.options.first_class
            first = start if first is None else first
            answers |= layers.detected_classes(answers, classes, self.names, start, first)
        answers.pop(CELLS, None)
        renamed = {new: answers.pop(old) for old, new in self.renamed.items()}
        return answers | renamed

    def _main(self, answers: Tensors) -> Tensors:
        answers = self._all(answers)
        kept = [self.renamed.get(name, name) for name in self.main_outputs]
        if self.options.encode == "detections":
            kept += [layers.DETECTED_NAMES, layers.NUMBER]
        return {name: answers[name] for name in kept if name in answers}

    def find_output_range(self, description: Mapping[str, Any], report: Report) -> None:
        """Find out which numbers become black and white in the PNG files.

        Raises MergeError if that is unknown.
        """
        options = self.options
        spec = self.outputs[self.image_output]
        if spec.dtype.is_integer:
            return
        stated = options.output_range or description.get("output_range")
        origin = "" if options.output_range else ", as the source says"
        if stated is None:
            advice = (
                "; which are black and white is not stated: give them with "
                "--output-range LOW HIGH, like -1 1 or 0 255, and "
                "those of the input, if they are as well, with --input-range LOW HIGH"
            )
            self._check_trial(self._run_on_noise(), self.image_output, 0.01, advice)
            stated = (0.0, 1.0)
            origin = ", as a trial with noise shows; --output-range LOW HIGH says otherwise"
        self.output_range = checked_range("--output-range", stated)
        low, high = self.output_range
        report(
            f'output "{self.image_output}" holds numbers from {low:g} (black) to '
            f"{high:g} (white){origin}"
        )

    def find_first_class(self, report: Report) -> None:
        """Find out from which number a detector counts its classes, where that
        is not known: from 1 if it numbers some beyond the last name.
        """
        advice = "; --classes-from says otherwise"
        if self.options.classes_from is None:
            names = {new: old for old, new in self.renamed.items()}
            found = self._run_on_noise()[names["detection_classes"]].numpy().astype(int)
            is_from_1 = found.size and found.min() >= 1 and found.max() == len(self.names)
            self.classes_from = int(is_from_1)
        if self.names:
            report(f'class {self.classes_from} is called "{self.names[0]}"{advice}')

    def check_probabilities(self, report: Report) -> None:
        """Raises MergeError where the class output, tried with noise, holds
        other numbers than probabilities; reports those of independent classes.
        """
        flag = "--sigmoid" if self.options.independent else "--softmax"
        advice = f", which are no probabilities; add {flag} if they are logits"
        answers = self._all(self._run_on_noise())
        self._check_trial(answers, self.class_alias, 0.001, advice)
        total = float(tf.reduce_sum(answers[self.class_alias]))
        if not (self.options.independent or self.options.sigmoid) and abs(total - 1) > OF_ONE:
            report(
                f"the probabilities of one picture add up to {total:.2f}, not 1: where it may show "
                "several of the classes, or none, add --independent"
            )

    def _check_trial(self, answers: Tensors, output: str, beyond: float, advice: str) -> None:
        values = tf.cast(answers[output], tf.float32)
        if not tf.reduce_all(tf.math.is_finite(values)):
            raise MergeError(
                f'output "{output}" held NaN or infinity in a trial with noise; no answer can be '
                "made of that, look at the training of its weights"
            )
        low, high = float(tf.reduce_min(values)), float(tf.reduce_max(values))
        if low < -beyond or high > 1 + beyond:
            raise MergeError(
                f'output "{output}" held numbers from {low:.3g} to {high:.3g} in a '
                f"trial with noise{advice}"
            )

    def _run_on_noise(self) -> Tensors:
        """What the network gives for noise, and zeros for further inputs."""
        zeros = {}
        for name, spec in self.further_inputs.items():
            shape = [size or 1 for size in spec.shape]
            zeros[name] = tf.zeros(shape, spec.dtype)
        return self.network(noise_images(1, self.wanted), **zeros)

    def _choose_names(self) -> dict[str, str]:
        """By each output's plain name, the one it gets if that is another one."""
        given = {name: self.given_names.get(name, name) for name in self.outputs}
        own = {plain: name for plain, name in given.items() if plain != name}
        if self.image_output:
            return {**own, self.image_output: "output_bytes"}
        if self.options.encode != "detections":
            is_free = self.classes and PREDICTION not in self.outputs
            if is_free and GENERATED.fullmatch(self.classes):
                return {**own, self.classes: PREDICTION}
            return own
        return {**own, **{self._detection(name): name for name in DETECTIONS}}

    def _detection(self, name: str) -> str:
        option, word, expected = DETECTIONS[name]
        if (chosen := getattr(self.options, option)) is not None:
            check_choice(option, chosen, self.main_outputs)
            return chosen
        fitting = [output for output in self.main_outputs if word in output.lower()]
        if name in self.main_outputs:
            fitting = [name]
        return self._only(fitting, expected, option)

    def _prediction(self, answers: Tensors) -> Tensors:
        return {PREDICTION: self._all(answers)[self.class_alias]}

    def _name_classes(self, answers: Tensors) -> Tensors:
        return layers.top_k(
            self._all(answers)[self.class_alias], self.names, min(TOP_K, len(self.names))
        )

    def _class_output(self) -> str:
        """Its name; "" where no names or probabilities are wanted of one."""
        if not (self.names or self.options.softmax or self.options.sigmoid):
            return ""
        rank = self._class_rank()
        classes = len(self.names)
        specs = {name: self.outputs[name] for name in self.main_outputs}
        numbers = {}
        fitting = []
        for name, spec in specs.items():
            if not spec.dtype.is_floating or spec.shape.rank != rank:
                continue
            numbers[name] = spec
            if spec.shape[-1] == classes if classes else spec.shape[-1] != 1:
                fitting.append(name)
        if classes == 2 and not (fitting or self.options.independent or self.options.sigmoid):
            fitting = [name for name, spec in specs.items() if is_one_number(spec, rank)]
        if classes and numbers and not fitting:
            counts = [f'"{name}" has {spec.shape[-1]}' for name, spec in numbers.items()]
            raise MergeError(
                f"there are {classes} labels, and output {', '.join(counts)} classes; "
                "expected a label for each class, in the order of the output"
            )
        return self._only(fitting, f"numbers per class ({classes or 'any'} classes)")

    def _is_one_number(self) -> bool:
        spec = self.outputs[self.classes]
        return len(self.names) == 2 and is_one_number(spec, self._class_rank())

    def _class_rank(self) -> int:
        return 1 if self.network_input.layout.batch == "none" else 2

    @property
    def class_alias(self) -> str:
        """The class output's name in the merged version."""
        return self.renamed.get(self.classes, self.classes)

    def _image_output(self) -> str:
        named = self.options.output
        fitting = []
        for name in self.main_outputs:
            if layout_of(self.outputs[name], PNG_CHANNELS, name == named):
                fitting.append(name)
        return self._only(fitting, "images (n, height, width, 1, 3 or 4)")

    def _only(self, fitting: Sequence[str], what: str, option: str = "output") -> str:
        if option == "output" and self.options.output is not None:
            check_choice("output", self.options.output, fitting)
            return self.options.output
        if len(fitting) == 1:
            return fitting[0]
        described = [f'"{name}" ({kind_of(self.outputs[name])})' for name in self.main_outputs]
        listed = "; ".join(described)
        candidates = ", ".join(fitting) or "none"
        raise MergeError(
            f"expected one output with {what}, found {candidates} among: {listed}; "
            f"choose with --{option}"
        )
