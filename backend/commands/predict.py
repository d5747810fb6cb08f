"""`dogsnap predict`: breeds of a photo, or predictions for instances, without a server or from one."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from backend.commands.helpers.arguments import EXISTING_FILE, PATH, key_headers, key_option, refuse_missing_models
from backend.commands.helpers.json_instances import Instances, read_instances
from backend.commands.helpers.picture_files import translate
from backend.logs import prepare_logging
from backend.settings import Settings, given, options


@click.command()
@click.argument("photo", type=click.Path(exists=True, path_type=Path), required=False)
@click.option(
    "--out",
    type=PATH,
    help="file for the output picture of an image-to-image model; a folder if PHOTO is one",
)
@click.option("--json-instances", type=EXISTING_FILE, help="in place of PHOTO: a file with one JSON instance per line")
@click.option("--model", default="", help="model; otherwise the default model")
@click.option("--version", type=int, help="version; otherwise the default version")
@click.option("--label", help="label, in place of a version")
@click.option("--top-k", type=int, help="number of breeds to name; otherwise 5")
@click.option(
    "--signature-name", default="", help="signature for --json-instances and --out; otherwise serving_default"
)
@click.option("--url", help="send it to this server, e.g. http://localhost:8501, in place of loading the model here")
@key_option
@options(
    "models", "model_config_file", "model_base_path", "model_name", "default_model", "max_photo_pixels", "max_photos"
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
    """Name the breed in PHOTO, predict the instances in a file, or transform a picture with --out."""
    _checked(photo, json_instances, out)
    which = {"model": model, "version": flags.pop("version"), "label": flags.pop("label")}
    settings = Settings.from_environment(**given(flags))
    server = Server(url, key) if url else None
    named = {**which, "model": model or _default_model(settings)}
    if out is not None:
        _translate(settings, server, named, photo, out, signature_name)
        return
    if json_instances is not None:
        answer = _predict(settings, server, named, read_instances(json_instances), signature_name)
    elif server is not None:
        answer = server.classify({**which, "top_k": top_k}, photo.read_bytes())
    else:
        answer = _classify_here(settings, named, top_k, photo.read_bytes())
    click.echo(_shown(answer))


def _default_model(settings: Settings) -> str:
    """The model's name where none is given: the only one, if the settings name the folder of one model."""
    folder = Path(settings.model_base_path) if settings.model_base_path else settings.models
    if settings.model_config_file or not any(folder.glob("[0-9]*/saved_model.pb")):
        return settings.default_model
    return (settings.model_base_path and settings.model_name) or folder.resolve().name


def _checked(photo: Path | None, json_instances: Path | None, out: Path | None) -> None:
    if (photo is None) == (json_instances is None):
        raise click.UsageError("expected either PHOTO or --json-instances FILE")
    if out is not None and photo is None:
        raise click.UsageError("--out is for the picture made of PHOTO; the answer to --json-instances is printed")
    if photo is not None and photo.is_dir() and out is None:
        raise click.UsageError(f"{photo} is a folder; expected a photo, or --out FOLDER for an image-to-image model")


def _translate(
    settings: Settings, server: "Server | None", which: dict[str, Any], photo: Path, out: Path, signature_name: str
) -> None:
    if server is not None:
        translate(photo, out, signature_name, lambda body: server.predict(which, body))
        return
    _with_predictor(
        settings, which, lambda here, spec: translate(photo, out, signature_name, lambda body: _rows(here, spec, body))
    )


def _predict(
    settings: Settings, server: "Server | None", which: dict[str, Any], instances: Instances, signature_name: str
) -> dict[str, Any]:
    """Raises click.ClickException, naming the line of a wrong instance."""
    body = {"instances": instances.values, "signature_name": signature_name}
    try:
        return _predict_here(settings, which, body) if server is None else server.predict(which, body)
    except click.ClickException as error:
        raise click.ClickException(instances.named(error.message)) from error


# -- here --------------------------------------------------------------------------------------------------------------


def _classify_here(settings: Settings, which: dict[str, Any], top_k: int | None, contents: bytes) -> dict[str, Any]:
    result = _with_predictor(settings, which, lambda here, spec: here.classify(contents, spec, top_k, "command"))
    return result.to_json()


def _predict_here(settings: Settings, which: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return _with_predictor(settings, which, lambda here, spec: _rows(here, spec, body))


def _rows(predictor: Any, spec: Any, body: dict[str, Any]) -> dict[str, Any]:
    from backend.errors import DogsnapError
    from backend.serving.inference.work import Values
    from backend.serving.tensors import tensors

    try:
        work = Values(lambda signature: tensors.from_body(body, signature), body["signature_name"])
        (prediction,) = predictor.answer(spec, [work], "command")
        return {"predictions": tensors.to_rows(prediction.outputs)}
    except DogsnapError as error:
        raise click.ClickException(error.message) from error


def _with_predictor(settings: Settings, which: dict[str, Any], run: Any) -> Any:
    """Run with a predictor that loads only the requested version. Raises click.ClickException with the predictor's message."""
    refuse_missing_models(settings)
    prepare_logging(level=logging.WARNING)  # only the answer and warnings are printed
    from backend.errors import DogsnapError
    from backend.serving.assembly import create_predictor
    from backend.serving.repository.model import ModelSpec

    try:
        spec = ModelSpec(which["model"], which["version"], which["label"])
        return run(create_predictor(settings, only=spec), spec)
    except DogsnapError as error:
        raise click.ClickException(error.message) from error


# -- by a server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A client of a server that predicts in place of a model loaded here; `key` is an API key or "".

    Its methods raise click.ClickException with the server's message, or if there is no answer.
    """

    url: str
    key: str = field(default="", repr=False)

    def classify(self, fields: dict[str, Any], contents: bytes) -> dict[str, Any]:
        """The answer of `POST /api/classify` for a photo; without a model name, by the server's default model."""
        query = {name: value for name, value in fields.items() if value not in (None, "")}
        answer = self._post("/api/classify", "application/octet-stream", contents, params=query)
        return {name: value for name, value in answer.items() if name not in ("request_id", "feedback_id")}

    def predict(self, which: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        """The answer of TensorFlow Serving's REST API for instances."""
        part = f"/versions/{which['version']}" if which["version"] is not None else ""
        part = f"/labels/{quote(which['label'], safe='')}" if which["label"] is not None else part
        path = f"/v1/models/{quote(which['model'], safe='')}{part}:predict"
        return self._post(path, "application/json", json.dumps(body))

    def _post(self, path: str, kind: str, data: bytes | str, **sent: Any) -> dict[str, Any]:
        from backend.http_client import ask, json_object

        headers = {"Content-Type": kind, **key_headers(self.key)}
        return json_object(ask("POST", self.url.rstrip("/") + path, data=data, headers=headers, **sent))


def _shown(answer: dict[str, Any]) -> str:
    import orjson

    return orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode()
