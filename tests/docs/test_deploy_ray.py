"""What `dogsnap deploy ray` knows without Ray: where versions are, how a node gets them, and how it answers."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from dogsnap.errors import FailedPrecondition, InvalidArgument
from dogsnap.ray.replica import Replica
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.model_files import VersionFiles, versions_below
from dogsnap.settings import Settings
from google.protobuf import message_factory
from google.protobuf.message import Message
from grpc import StatusCode
from support import grpc_contract, tiny_models
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2,
    prediction_service_pb2,
)


@pytest.fixture
def bucket(colour_models) -> str:
    """The versions in an object store that is no file system: fsspec's memory."""
    memory = fsspec.filesystem("memory")
    for file in sorted(file for file in colour_models.rglob("*") if file.is_file()):
        memory.pipe_file(f"/models/{file.relative_to(colour_models).as_posix()}", file.read_bytes())
    yield "memory://models"
    memory.rm("/models", recursive=True)


def version(source: str, number: int) -> VersionFiles:
    return next(each for each in versions_below(source) if each.version == number)


def test_versions_are_found_at_a_path_and_at_a_url(colour_models, bucket) -> None:
    for source in (str(colour_models), f"file://{colour_models}", bucket):
        found = versions_below(source)
        assert [(each.model, each.version) for each in found] == [
            ("inception_v3", 1),
            ("inception_v3", 2),
        ]
        assert {each.digest for each in found} == {
            each.digest for each in versions_below(str(colour_models))
        }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("memory://nothing", "nothing does not exist"),
        ("gopher://somewhere/models", "gopher://somewhere/models cannot be opened"),
        ("/tests/nowhere", "/tests/nowhere does not exist"),
        ("", "no version was found"),
    ],
)
def test_a_source_without_versions_is_refused_by_its_name(source, said, tmp_path) -> None:
    (tmp_path / "model" / "notes").mkdir(parents=True)
    with pytest.raises(InvalidArgument, match=said):
        versions_below(source or str(tmp_path))


def test_a_folder_that_every_node_sees_is_read_in_place(colour_models, tmp_path) -> None:
    assert (
        version(str(colour_models), 2).local(tmp_path / "cache")
        == colour_models.resolve() / "inception_v3"
    )
    assert not (tmp_path / "cache").exists()


def test_a_version_is_copied_from_a_url_once_and_whole(bucket, tmp_path) -> None:
    folder = version(bucket, 2).local(tmp_path)
    assert sorted(each.name for each in folder.iterdir()) == ["2"]
    checksums.verify(folder / "2")
    fsspec.filesystem("memory").rm("/models/inception_v3/2/saved_model.pb")
    digest = folder.parent.name.rpartition("-")[2]
    bucket_files = VersionFiles(bucket, "inception_v3", "2", digest, "inception_v3")
    assert bucket_files.local(tmp_path) == folder  # asks for nothing any more


def test_a_copy_that_is_not_as_it_was_exported_is_not_kept(bucket, tmp_path) -> None:
    files = version(bucket, 2)
    fsspec.filesystem("memory").pipe_file("/models/inception_v3/2/saved_model.pb", b"cut")
    with pytest.raises(FailedPrecondition, match=r"saved_model\.pb was changed after the export"):
        files.local(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [".copies.lock"]


def test_a_version_is_told_by_its_checksums_or_else_by_its_files(colour_models, tmp_path) -> None:
    folder = Path(shutil.copytree(colour_models, tmp_path / "models")) / "inception_v3" / "1"

    def digest() -> str:
        return version(str(tmp_path / "models"), 1).digest

    before = digest()
    (folder / "assets.extra" / "note").write_text("new")
    assert digest() == before
    checksums.write(folder)
    assert digest() != before
    (folder / "assets.extra" / "SHA256SUMS").unlink()
    before = digest()
    (folder / "assets.extra" / "note").write_text("newer")
    assert digest() != before


# -- a replica, called as Ray would ------------------------------------------------------------------------------------

SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"],
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"],
)
METHODS = {
    message_factory.GetMessageClass(method.input_type): method.name
    for service in SERVICES
    for method in service.methods
}
ANSWERED = [
    each
    for each in grpc_contract.ANSWERED
    if METHODS.get(type(each.request), "GetModelStatus") != "GetModelStatus"
    and "half_plus" in str(each.request)
    and "label" not in str(each.request)  # the gateway sends numbers
]


@pytest.fixture(scope="module")
def replica(tmp_path_factory) -> Replica:
    models = tmp_path_factory.mktemp("replica")
    tiny_models.half_plus_two_of_examples(models / "half_plus_two" / "123")
    (files,) = versions_below(str(models))
    return Replica(files, Settings(), models / "cache")


class Context:
    """What Ray's proxy gives a method to set a status on."""

    code, details = StatusCode.OK, ""

    def set_code(self, code: StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details


def answer(replica: Replica, request: Message) -> tuple[Message, Context]:
    """In a thread of its own: this one may have an event loop already, of the browser that other tests share."""
    context = Context()
    call = getattr(replica, METHODS[type(request)])(request, context)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result(), context


@pytest.mark.parametrize("call", ANSWERED, ids=lambda call: call.name)
def test_a_replica_answers_every_method_of_the_prediction_service(replica, call) -> None:
    found, context = answer(replica, call.request)
    assert (context.code, context.details) == (StatusCode.OK, "")
    assert b"half_plus_two" in found.SerializeToString()


def test_a_replica_refuses_a_call_with_a_status_code_and_a_sentence(replica) -> None:
    _, context = answer(replica, grpc_contract.half(signature_name="no_signature"))
    assert context.code is StatusCode.FAILED_PRECONDITION
    assert "no_signature" in context.details


def test_a_replica_tells_that_its_version_is_available(replica) -> None:
    request = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "half_plus_two"})
    found, _ = answer(replica, request)
    assert [each.version for each in found.model_version_status] == [123]
