"""`dogsnap predict`: breeds of a photo, or predictions for instances, without a
server or from one.
"""

import json
import logging
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
import orjson

from dogsnap.commands.helpers import local_models
from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option
from dogsnap.commands.helpers.json_instances import read_instances
from dogsnap.commands.helpers.picture_files import translate
from dogsnap.errors import DogsnapError, FailedPrecondition
from dogsnap.logs import escape_unprintable, prepare_logging
from dogsnap.settings import Settings, options, variable, warn_of_withdrawn

if TYPE_CHECKING:  # imports TensorFlow
    from dogsnap.local_model import LocalModel

# A drawing of ours, beside the package's code so that an installed wheel has it.
EXAMPLE = Path(__file__).with_name("example.jpg")


def _checked_key(context: click.Context, option: click.Parameter, key: str) -> str:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise click.BadParameter(
            "expected a key as `dogsnap keys add` prints it: ASCII characters without spaces"
        )
    return key


@click.command()
@click.argument("photo", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--example", is_flag=True, help="a drawn dog instead of PHOTO")
@option(
    "--out",
    "file for the output picture of an image-to-image model; a folder if PHOTO is one",
    PATH,
)
@option(
    "--json-instances", "instead of PHOTO: a file with one JSON instance per line", EXISTING_FILE
)
@option("--model", "model; otherwise the default model", default="")
@option("--version", "version; otherwise the default version", int)
@option("--label", "label, instead of a version")
@option("--top-k", "number of breeds to name; otherwise 5", int)
@option(
    "--signature-name",
    "signature for --json-instances and --out; otherwise serving_default",
    default="",
)
@option(
    "--url",
    "send it to this server, e.g. http://localhost:8501, instead of loading the model here",
)
@option(
    "--key",
    f"an API key for the server at --url, if it wants one  [{variable('key')}]",
    default="",
    envvar=variable("key"),
    callback=_checked_key,
)
@options(
    "models",
    "model_config_file",
    "model_base_path",
    "model_name",
    "default_model",
    "max_photo_pixels",
    "max_photos",
)
def predict(
    photo: Path | None,
    json_instances: Path | None,
    model: str,
    url: str | None,
    key: str,
    top_k: int | None,
    signature_name: str,
    out: Path | None,
    **flags: Any,
) -> None:
    """Name the breed in PHOTO, predict the instances in a file, or transform a
    picture with --out.
    """
    if flags.pop("example"):
        if photo is not None:
            raise click.UsageError("expected either PHOTO or --example")
        photo = EXAMPLE
    _check_arguments(photo, json_instances, out)
    which = {"model": model, "version": flags.pop("version"), "label": flags.pop("label")}
    settings = Settings.from_environment(**flags)
    warn_of_withdrawn(**flags)
    instances = None if json_instances is None else read_instances(json_instances)
    name = model or local_models.only_model(settings) or settings.default_model
    if not url:
        local_models.refuse_missing_models(settings)
        if photo is not None and out is None:
            _refuse_no_photo(photo)
    answering = Server(url, which, name, key) if url else Here(settings, {**which, "model": name})
    if out is not None and photo is not None:
        return translate(photo, out, signature_name, answering.predict)
    if photo is not None:
        answer = answering.classify(photo.read_bytes(), top_k)
    elif instances is not None:
        body = {"instances": instances.values, "signature_name": signature_name}
        try:
            answer = answering.predict(body)
        except (click.ClickException, DogsnapError) as error:
            message = escape_unprintable(instances.point_to_line(error.message))
            raise click.ClickException(message) from error
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))


def _check_arguments(photo: Path | None, json_instances: Path | None, out: Path | None) -> None:
    if (photo is None) == (json_instances is None):
        raise click.UsageError("expected one of PHOTO, --example and --json-instances FILE")
    if out is not None and photo is None:
        raise click.UsageError(
            "--out is for the picture made of PHOTO; the answer to --json-instances is printed"
        )
    if photo is not None and photo.is_dir() and out is None:
        raise click.UsageError(
            f"{photo} is a folder; expected a photo, or --out FOLDER for an image-to-image model"
        )


def _refuse_no_photo(file: Path) -> None:
    """Raises click.ClickException for a file that is no picture at all; a
    damaged one is refused when it is classified.
    """
    import pillow_heif
    from PIL import Image, UnidentifiedImageError

    pillow_heif.register_heif_opener()
    try:
        Image.open(file).close()
    except UnidentifiedImageError:
        raise click.ClickException(
            f"{file} is no photo: expected JPEG, PNG, GIF, BMP, WebP, HEIC or AVIF"
        ) from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return


class Here:
    """A predictor in this process with only the requested version.

    Its methods, those of `Server`, raise DogsnapError.
    """

    def __init__(self, settings: Settings, which: dict[str, Any]):
        prepare_logging(level=logging.WARNING)  # only the answer and warnings are printed
        # The command itself says which version cannot be loaded.
        repository = logging.getLogger("dogsnap.repository")
        repository.setLevel(logging.CRITICAL)
        try:
            self._model = _load(settings, which)
        finally:
            repository.setLevel(logging.NOTSET)

    def classify(self, contents: bytes, top_k: int | None) -> dict[str, Any]:
        return self._model.classify(contents, top_k).to_json()

    def predict(self, body: dict[str, Any]) -> dict[str, Any]:
        from dogsnap.serving.inference.request_kinds import Values
        from dogsnap.serving.tensors import json_tensors

        work = Values(partial(json_tensors.from_body, body), body["signature_name"])
        return {"predictions": json_tensors.to_rows(self._model.answer(work).outputs)}


def _load(settings: Settings, which: dict[str, Any]) -> "LocalModel":
    """The version that was asked for; without one, the largest that can be loaded,
    as a server does. Raises click.ClickException if none can.
    """
    name = which["model"]
    numbers = local_models.candidates(settings, **which)
    for number in numbers:
        click.echo(f"loading {name} version {number} ...", err=True)
        from dogsnap.local_model import LocalModel
        from dogsnap.routing.spec import ModelSpec

        try:
            return LocalModel(settings, ModelSpec(name, number))
        except FailedPrecondition as error:
            click.echo(error.message, err=True)
    raise click.ClickException(
        f"no version of {name} that was asked for can be loaded: "
        f"{', '.join(map(str, numbers)) or 'none on disk'}"
    )


@dataclass(frozen=True)
class Server:
    """A client of a server that predicts instead of a model loaded here; `key`
    is an API key or "".

    `which`: model, version and label as given; `model`: the model's name in the
    path of TensorFlow Serving's REST API. Its methods raise
    click.ClickException with the server's message, or if there is no answer.
    """

    url: str
    which: dict[str, Any]
    model: str
    key: str = field(repr=False)

    def classify(self, contents: bytes, top_k: int | None) -> dict[str, Any]:
        """The answer of `POST /api/classify` for a photo; without a model name,
        by the server's default model.
        """
        fields = {**self.which, "top_k": top_k}
        query = {name: value for name, value in fields.items() if value not in (None, "")}
        answer = self._post("/api/classify", "application/octet-stream", contents, params=query)
        for each in (answer, *answer.get("dogs", [])):
            for of_request in ("request_id", "feedback_id", "feedback_asked"):
                each.pop(of_request, None)
        return answer

    def predict(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of TensorFlow Serving's REST API for instances."""
        version = self.which["version"]
        label = self.which["label"]
        path = f"/v1/models/{quote(self.model, safe='')}"
        if label is not None:
            path += f"/labels/{quote(label, safe='')}"
        elif version is not None:
            path += f"/versions/{version}"
        return self._post(f"{path}:predict", "application/json", json.dumps(body))

    def _post(self, path: str, kind: str, data: bytes | str, **sent: Any) -> dict[str, Any]:
        from dogsnap.commands.helpers.http_client import ask, json_object

        url = self.url.rstrip("/") + path
        headers = {"Content-Type": kind}
        if self.key:
            headers["X-Api-Key"] = self.key
        return json_object(ask("POST", url, data=data, headers=headers, **sent))
