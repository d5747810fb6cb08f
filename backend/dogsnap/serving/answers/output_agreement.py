"""How far two versions answer a request alike: numbers by their difference,
texts by equality, detections by matched boxes.
"""

from dataclasses import dataclass, field

import numpy as np

from dogsnap.serving.tensors.signatures import Arrays

TOLERANCE = 0.01  # of numbers: as a share of the first version's, and absolute
# Of two boxes of one thing: their intersection over their union (PASCAL VOC, Everingham et
# al., 2010). Boxes of a lower score are none.
LEAST_OVERLAP = 0.5
LEAST_SCORE = 0.5
BOXES = "detection_boxes"
CLASSES = "detection_classes"
SCORES = "detection_scores"
NUMBERS = "numbers"
TEXTS = "texts"
DETECTIONS = "detections"
# What else a detector says of its boxes.
OF_BOXES = (CLASSES, SCORES, "detection_names", "num_detections")


@dataclass(frozen=True)
class OutputAgreement:
    """Of one output of two versions.

    `agrees`: bool (rows,). `values`: how many numbers, texts or boxes were
    compared, of which `alike` are equal, within the tolerance, or matched.
    `differences`: of numbers, absolute, (values,).
    """

    kind: str
    agrees: np.ndarray
    values: int
    alike: int
    differences: np.ndarray = field(default_factory=lambda: np.zeros(0))


def compare_outputs(
    first: Arrays, second: Arrays, tolerance: float = TOLERANCE
) -> dict[str, OutputAgreement]:
    """The agreement in each output that both have, by name. Where both detect,
    `detection_boxes` stands for all that is said of boxes.

    `tolerance`: of numbers that are no whole ones. Rows: see `count_rows`.
    """
    shared = [name for name in first if name in second]
    count = count_rows(first)
    detects = {BOXES, CLASSES, SCORES} <= set(shared)
    found = {}
    for name in shared:
        ours = np.asarray(first[name])
        theirs = np.asarray(second[name])
        if detects and name == BOXES:
            found[name] = _compare_detections(first, second, count)
        elif not (detects and name in OF_BOXES):
            found[name] = _compare_values(ours, theirs, count, tolerance)
    return found


def count_rows(outputs: Arrays) -> int:
    """The first dimension where all outputs have the same one, else 1."""
    sizes = {np.shape(value)[:1] for value in outputs.values()}
    (size,) = sizes if len(sizes) == 1 else ((1,),)
    return size[0] if size else 1


def _compare_values(
    ours: np.ndarray, theirs: np.ndarray, rows: int, tolerance: float
) -> OutputAgreement:
    are_numbers = ours.dtype.kind in "fciub" and theirs.dtype.kind in "fciub"
    kind = NUMBERS if are_numbers else TEXTS
    if ours.shape != theirs.shape:
        return OutputAgreement(kind, np.zeros(rows, bool), ours.size, 0)
    if ours.dtype.kind == "f" and are_numbers:
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        alike = np.isclose(theirs, ours, rtol=tolerance, atol=tolerance, equal_nan=True)
        differences = np.abs(ours - theirs)
    else:  # whole numbers are classes, counts or places
        alike = ours == theirs
        differences = np.abs(ours.astype(float) - theirs) if are_numbers else np.zeros(0)
    agrees = alike.reshape(rows, -1).all(axis=1) if alike.size else np.ones(rows, bool)
    return OutputAgreement(kind, agrees, alike.size, int(alike.sum()), differences.reshape(-1))


def _compare_detections(first: Arrays, second: Arrays, rows: int) -> OutputAgreement:
    """Each box of the first, the surest first, is matched with the box of the
    same class that overlaps it most; both count as `values`, and `alike` where
    matched.
    """
    agrees = []
    boxes = 0
    matched = 0
    for row in range(min(len(first[BOXES]), len(second[BOXES]))):
        ours = _sure_boxes(first, row)
        theirs = _sure_boxes(second, row)
        pairs = _match(ours, theirs)
        boxes += len(ours) + len(theirs)
        matched += 2 * pairs
        agrees.append(len(ours) == len(theirs) == pairs)
    if len(agrees) != rows:
        agrees = [False] * rows
    return OutputAgreement(DETECTIONS, np.array(agrees, bool), boxes, matched)


def _sure_boxes(outputs: Arrays, row: int) -> list[tuple[float, np.ndarray]]:
    """The class and the corners of each, the surest first."""
    scores = outputs[SCORES][row]
    sure = [place for place in np.argsort(-scores, kind="stable") if scores[place] >= LEAST_SCORE]
    return [(outputs[CLASSES][row][place], outputs[BOXES][row][place]) for place in sure]


def _match(ours: list[tuple[float, np.ndarray]], theirs: list[tuple[float, np.ndarray]]) -> int:
    """How many boxes have a partner of their own."""
    left = list(theirs)
    pairs = 0
    for kind, box in ours:
        overlaps = [_overlap(box, other) if kind == of else 0.0 for of, other in left]
        if overlaps and max(overlaps) >= LEAST_OVERLAP:
            left.pop(int(np.argmax(overlaps)))
            pairs += 1
    return pairs


def _overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Intersection over union of two boxes (4,), whichever axis comes first."""
    low = np.maximum(first[:2], second[:2])
    high = np.minimum(first[2:], second[2:])
    inside = float(np.prod(np.maximum(high - low, 0)))
    areas = float(np.prod(first[2:] - first[:2]) + np.prod(second[2:] - second[:2]))
    return inside / max(areas - inside, 1e-12)
