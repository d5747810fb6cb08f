"""Measures a server with TensorFlow Serving's REST API; the metadata says how its model takes photos."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import getitem
from typing import Any
from urllib.parse import quote

import click
import numpy as np
from PIL import Image

from backend.bench.rounds import Load, Point, alternating, load, point
from backend.http_client import ask

SIZE = (299, 299)  # of images for a model that accepts any size


class CannotMeasure(click.ClickException):
    """The measurement is impossible; the message, with which the command ends, says why."""


@dataclass(frozen=True)
class Target:
    """The URL for photos and the model's only input: `alias`, `dtype` (DT_...), `size` (height, width).

    `headers`: sent with every request; they may contain an API key and are not printed.
    """

    url: str
    alias: str
    dtype: str
    size: tuple[int, int] = SIZE
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def body(self, photos: Sequence[bytes]) -> str:
        """The body of a request with these photos."""
        return json.dumps({"instances": [self._value(photo) for photo in photos]})

    def _value(self, photo: bytes) -> Any:
        if self.dtype == "DT_FLOAT":
            pixels = Image.open(io.BytesIO(photo)).convert("RGB").resize(self.size[::-1])
            return (np.asarray(pixels) / 255.0).round(4).tolist()
        if self.alias.endswith("_bytes"):
            return {"b64": base64.b64encode(photo).decode()}
        return base64_text(photo)


def base64_text(photo: bytes) -> str:
    """Base64 in the web-safe alphabet without padding, which every graph that decodes base64 accepts."""
    return base64.urlsafe_b64encode(photo).rstrip(b"=").decode()


def find(url: str, model: str, version: int | None = None, headers: Mapping[str, str] | None = None) -> Target:
    """Find out from the metadata how the model takes photos.

    Raises NoAnswer if there is no server, CannotMeasure if it has no such model, or none that takes photos.
    """
    number = "" if version is None else f"/versions/{version}"
    path = f"{url.rstrip('/')}/v1/models/{quote(model, safe='')}{number}"
    keys = ("metadata", "signature_def", "signature_def")
    inputs = _ask("GET", f"{path}/metadata", keys, dict, headers=headers).get("serving_default", {}).get("inputs", {})
    if len(inputs) != 1:
        raise CannotMeasure(
            f"{model} at {url} takes {len(inputs)} inputs by its default signature; expected one, a photo"
        )
    ((alias, spec),) = inputs.items()
    sides = [int(each["size"]) for each in spec["tensor_shape"].get("dim", [])]
    takes_images = spec["dtype"] == "DT_FLOAT" and len(sides) == 4 and sides[3] == 3
    if spec["dtype"] != "DT_STRING" and not takes_images:
        raise CannotMeasure(
            f'input "{alias}" of {model} at {url} takes {spec["dtype"]} {sides}; expected strings, or float images (n, h, w, 3)'
        )
    size = (sides[1], sides[2]) if takes_images and min(sides[1:3]) > 0 else SIZE
    return Target(f"{path}:predict", alias, spec["dtype"], size, headers or {})


def asked(target: Target, photos: Sequence[bytes]) -> list[Any]:
    """The predictions for photos. Raises CannotMeasure with the server's message if the status is not 200."""
    headers = {"Content-Type": "application/json", **target.headers}
    return _ask("POST", target.url, ("predictions",), list, data=target.body(photos), headers=headers)


def _ask(method: str, url: str, keys: Sequence[str], kind: type, **sent: Any) -> Any:
    """What the answer holds below these keys. Raises NoAnswer or CannotMeasure."""
    response = ask(method, url, **sent)
    try:
        body = response.json()
        found = reduce(getitem, keys, body) if response.ok else str(body["error"])
    except (ValueError, LookupError, TypeError):
        found = " ".join(response.text.split())[:200] or "nothing more"
    if response.status_code != 200:
        raise CannotMeasure(f"{url} answers {response.status_code}: {found}")
    if not isinstance(found, kind):
        raise CannotMeasure(f"{url} answers, but not as TensorFlow Serving's REST API does: no {'.'.join(keys)}")
    return found


def sweep(
    target: Target, photos: Sequence[bytes], shapes: Sequence[tuple[int, int]], seconds: float, rounds: int
) -> list[Point]:
    """Measure every shape, clients and photos in a request, once per round, for `seconds` each; one Point per shape."""
    bodies = {batch: request_bodies(target, photos, batch) for _, batch in shapes}

    def one_round(clients: int, batch: int) -> Load:
        return load(target.url, bodies[batch], clients=clients, seconds=seconds, headers=dict(target.headers))

    runs = alternating([partial(one_round, *shape) for shape in shapes], rounds)
    return [point(loads, *shape) for shape, loads in zip(shapes, runs, strict=True)]


def request_bodies(target: Target, photos: Sequence[bytes], batch: int) -> list[str]:
    """Different requests, as far as there are photos; a single one if it contains all photos."""
    if batch == 1:
        return [target.body([photo]) for photo in photos]
    return [target.body([photos[number % len(photos)] for number in range(batch)])]
