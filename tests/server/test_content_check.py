"""The optional content check: what is sent to whose service, and what its answers mean."""

import io
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes

import pytest
import requests
from dogsnap.errors import Full
from dogsnap.server.app import create_app
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.photos import photo as photos
from dogsnap.serving.photos.content_check import ContentCheck
from dogsnap.serving.photos.hostile_files import check_structure
from dogsnap.settings import Settings
from PIL import Image
from support import colour_photos
from support.colour_photos import RED, encode, plain
from support.ports import LOST_PROXY
from support.process_readings import most_seconds
from support.refusals import assert_refused
from support.stub_service import StubService

# As https://api.weixin.qq.com/wxa/img_sec_check answered: recorded.
PASSED = {"errcode": 0, "errmsg": "ok"}
RISKY = {"errcode": 87014, "errmsg": "risky content rid: 5f0a1b2c-1d2e3f40-5a6b7c8d"}
NO_TOKEN = {
    "errcode": 40001,
    "errmsg": "invalid credential, access_token is invalid or not latest rid: 5f0a1b2c",
}
RED_PHOTO = encode(plain(RED), "JPEG")
PATH = "/wxa/img_sec_check?access_token=SECRET"
GPS_TAG, ORIENTATION_TAG = 0x8825, 0x0112


@pytest.fixture(scope="module")
def running_service() -> Iterator[StubService]:
    with StubService() as service:
        yield service


@pytest.fixture
def service(running_service) -> StubService:
    running_service.set(PASSED)
    return running_service


@pytest.fixture(scope="module")
def checked_server(start_server, colour_models, running_service):
    return start_server(
        colour_models, "--content-check", f"{running_service.url}{PATH}", environ=LOST_PROXY
    )


def classify(server, photo: bytes = RED_PHOTO) -> requests.Response:
    return server.classify(photo, {"X-Request-Key": "mine"})


def sent_photo(service: StubService) -> Image.Image:
    ((_, headers, body),) = service.received
    message = message_from_bytes(f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body)
    (part,) = message.get_payload()
    assert part.get_param("name", header="content-disposition") == "media"
    assert part.get_content_type() == "image/jpeg"
    return Image.open(io.BytesIO(part.get_payload(decode=True)))


def test_a_photo_that_passes_is_classified_and_one_that_does_not_is_422(checked_server, service):
    answer = classify(checked_server)
    assert (answer.status_code, answer.json()["breeds"][0]["id"]) == (200, "c1")
    assert service.received[0][0] == PATH
    service.set(RISKY)
    said = "the photo did not pass the content check; choose another one"
    assert_refused(classify(checked_server), 422, said)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (NO_TOKEN, 200),
        (None, 200),
        (b"<html>", 200),
        ([], 200),
        ({"errmsg": "ok"}, 200),
        (PASSED, 500),
    ],
    ids=["no token", "hung up", "no JSON", "a list", "no errcode", "status 500"],
)
def test_without_a_usable_answer_it_is_503_and_the_url_stays_secret(
    checked_server, service, answer, status
):
    service.set(answer, status)
    refused = classify(checked_server)
    assert_refused(refused, 503, "content check is not available")
    assert (bool(refused.headers["Retry-After"]), "SECRET" in refused.text) == (True, False)


def test_a_small_upright_jpeg_without_exif_is_sent_and_nothing_about_the_sender(
    checked_server, service
):
    photo = Image.new("RGB", (3000, 1500), RED)
    photo.paste((0, 0, 255), (0, 0, 1500, 1500))
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = 6  # stored on its side
    exif.get_ifd(GPS_TAG)[1] = "N"
    file = io.BytesIO()
    photo.save(file, "JPEG", exif=exif, comment=b"taken at home")
    assert classify(checked_server, file.getvalue()).status_code == 200
    with sent_photo(service) as sent:
        assert (sent.format, sent.size) == ("JPEG", (375, 750))
        assert sent.getpixel((10, 10))[2] > 200  # blue is on top
        assert not sent.getexif()
        assert "comment" not in sent.info
    _, headers, body = service.received[0]
    assert {"x-request-key", "x-api-key", "x-forwarded-for", "cookie"}.isdisjoint(
        name.lower() for name in headers
    )
    assert len(body) < 1_000_000


def test_a_photo_that_passes_is_not_checked_again_before_it_runs(
    colour_models, service, monkeypatch
):
    checked = []

    def count(contents: bytes) -> None:
        checked.append(len(contents))
        check_structure(contents)

    settings = Settings(models=colour_models, content_check=f"{service.url}{PATH}")
    predictor = create_predictor(settings)
    predictor.repository.scan(skip_settling=True)
    client = create_app(settings, predictor).test_client()
    monkeypatch.setattr(photos, "check_structure", count)
    for sent in ([RED_PHOTO], [RED_PHOTO, encode(plain(RED), "PNG")]):
        checked.clear()
        texts = [b64encode(each).decode() for each in sent]
        answer = client.post("/api/classify", json={"images": texts})
        assert (answer.status_code, answer.json["breeds"][0]["id"]) == (200, "c1")
        assert checked == [len(each) for each in sent]
    predictor.close()


@pytest.mark.parametrize("kind", colour_photos.every_kind())
def test_photos_of_every_kind_are_sent_as_jpeg(checked_server, service, kind):
    assert classify(checked_server, colour_photos.every_kind()[kind]).status_code == 200
    with sent_photo(service) as sent:
        assert sent.format == "JPEG"


def test_what_is_no_photo_is_refused_before_anything_is_sent(checked_server, service):
    for photo, status in ((b"no photo", 415), (colour_photos.huge_png(20_000, 20_000), 413)):
        assert classify(checked_server, photo).status_code == status
    assert service.received == []


def test_a_photo_whose_decoding_finds_no_place_is_told_so(service):
    large = encode(plain(size=(4000, 3001)), "PNG")
    check = ContentCheck(service.url, 50_000_000)
    with (
        photos.place_to_decode(photos.LARGE),
        photos.place_to_decode(photos.LARGE),
        pytest.raises(Full, match="decodes 2 pictures of 12 megapixels"),
    ):
        check.require_passed(large)


def test_a_service_that_drips_its_answer_is_not_waited_for_longer_than_5_seconds(
    checked_server, service
):
    service.set(PASSED, drip=0.3)  # a byte, of some 30
    begun = time.monotonic()
    assert_refused(classify(checked_server), 503, "content check is not available")
    assert time.monotonic() - begun < most_seconds(7)


def health_seconds(server) -> float:
    """The median of a second's answers."""
    seconds, end = [], time.monotonic() + 2
    while time.monotonic() < end:
        begun = time.monotonic()
        assert server.get("/healthz").status_code == 200
        seconds.append(time.monotonic() - begun)
        time.sleep(0.02)
    return sorted(seconds)[len(seconds) // 2]


@pytest.mark.long
def test_beside_160_photos_whose_check_takes_4_seconds_health_is_answered_as_fast_as_without(
    checked_server, service
):
    alone = health_seconds(checked_server)
    service.set(PASSED, seconds=4.0)
    with ThreadPoolExecutor(160) as pool:
        checks = [pool.submit(classify, checked_server) for _ in range(160)]
        time.sleep(1)
        beside = health_seconds(checked_server)
        statuses = {each.result().status_code for each in checks}
    print(
        f"/healthz: {1000 * alone:.1f} ms alone, {1000 * beside:.1f} ms beside 160 photos whose check takes 4 s"
    )
    assert statuses == {200, 503}
    assert beside < 1.5 * alone + 0.002
