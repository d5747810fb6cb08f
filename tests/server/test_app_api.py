"""The app's own API, over HTTP: a photo in any form goes in, named breeds come out, and bad input is told why."""

import base64
import io
import resource
import shutil

import pytest
from PIL import Image
from support import colour_photos, own_models
from support.colour_photos import BLUE, GREEN, RED, encode, huge_png, plain
from support.process_readings import worker_of
from support.refusals import assert_refused
from support.tiny_models import COLOURS, colours, half_plus, with_levels

pytestmark = pytest.mark.early

KINDS = {"red dog": (RED, "JPEG"), "green dog": (GREEN, "PNG"), "blue dog": (BLUE, "WEBP")}
PHOTOS = {name: encode(plain(colour), kind) for name, (colour, kind) in KINDS.items()}


def text(photo: bytes) -> str:
    return base64.b64encode(photo).decode()


@pytest.mark.parametrize("version", [1, 2, None])
@pytest.mark.parametrize(
    ("name", "name_zh"), [("red dog", "红犬"), ("green dog", "绿犬"), ("blue dog", "蓝犬")]
)
def test_a_photo_is_named_by_every_version(colour_server, name, name_zh, version):
    response = colour_server.classify(PHOTOS[name], version=version)
    answer = response.json()
    assert response.status_code == 200
    assert answer["model"] == {"name": "inception_v3", "version": version or 2}
    assert (answer["dog"], answer["confident"]) == (True, True)
    assert (answer["breeds"][0]["name"], answer["breeds"][0]["name_zh"]) == (name, name_zh)
    probabilities = [breed["probability"] for breed in answer["breeds"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)
    assert answer["request_id"] == response.headers["X-Request-Id"]


@pytest.mark.parametrize("kind", colour_photos.every_kind())
@pytest.mark.parametrize("version", [1, 2])
def test_every_kind_of_photo_is_named(colour_server, kind, version):
    answer = colour_server.classify(colour_photos.every_kind()[kind], version=version).json()
    assert answer["breeds"][0]["name"] == "red dog"


@pytest.mark.parametrize(
    "sent",
    [
        {
            "params": {"top_k": 1},
            "data": PHOTOS["green dog"],
            "headers": {"Content-Type": "image/png"},
        },
        {"data": {"top_k": "1"}, "files": {"image": ("a.png", PHOTOS["green dog"])}},
        {"data": {"top_k": "1"}, "files": {"image": (None, text(PHOTOS["green dog"]))}},
        {"json": {"image": text(PHOTOS["green dog"]), "top_k": 1}},
        {"json": {"image": text(PHOTOS["green dog"]), "version": 1}, "params": {"top_k": 1}},
    ],
    ids=["raw body", "file of a form", "text of a form", "JSON", "both"],
)
def test_a_photo_comes_in_every_form_with_its_fields_in_query_or_form(colour_server, sent):
    answer = colour_server.post("/api/classify?version=1", **sent).json()
    assert answer["model"]["version"] == 1
    assert [breed["id"] for breed in answer["breeds"]] == ["c2"]


@pytest.mark.parametrize("query", ["version=1", "version=2&version=1", "label=stable"])
def test_a_field_that_body_and_query_give_otherwise_is_refused(colour_server, query):
    fields = {"version": 2, "label": "canary"} if "label" in query else {"version": 2}
    name = "label" if "label" in query else "version"
    as_json = {"json": {"image": text(PHOTOS["red dog"]), **fields}}
    as_form = {"data": fields, "files": {"image": ("a.png", PHOTOS["red dog"])}}
    for sent in (as_json, as_form):
        answer = colour_server.post(f"/api/classify?{query}", **sent)
        assert_refused(answer, 400, f"{name} is '", "in body and query; send it once")


def test_what_decides_is_not_ignored_in_the_query_of_other_requests(colour_server):
    switch = colour_server.post(
        "/api/admin/models/inception_v3/default?dry_run=1", json={"version": 1}
    )
    assert_refused(switch, 400, "expected dry_run in the JSON body, received in the query")
    data = {"image": text(PHOTOS["green dog"])}
    asked = colour_server.post("/?model_version=2&signature_name=labels", json={"data": data})
    assert asked.json()["labels"][0][0] == "green dog"
    asked = colour_server.post("/?model_version=1", json={"data": data, "model_version": 2})
    assert_refused(asked, 400, "model_version is '2' and '1', in body and query")


ADDRESSES = (
    "wxfile://tmp_1.jpg",
    "http://tmp/1.jpg",
    "blob:http://x/1",
    "C:\\dog.png",
    "/tmp/a.JPG?x=1",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_address_of_a_photo_in_place_of_it_is_called_so(colour_server, address):
    said = f"an address or the name of a file ({address}); send what that file holds"
    assert_refused(colour_server.post("/api/classify", json={"image": address}), 400, said)
    asked = colour_server.post(
        "/v1/models/inception_v3:predict", json={"instances": [{"b64": address}]}
    )
    assert_refused(asked, 400, said)


LEVELS = {
    "breed": ((200, 0, 0), ["c1"]),
    "group": ((200, 200, 0), ["c1", "c2"]),
    "set": ((200, 0, 200), ["c1", "c3"]),
    "unknown": ((150, 150, 150), ["c1", "c2", "c3"]),
    "no_dog": ((2, 2, 2), None),
}


@pytest.fixture(scope="module")
def levels_server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("levels")
    with_levels(colours(models / "inception_v3") / "2", 3)
    return start_server(models, lasting=True)


@pytest.mark.parametrize("level", LEVELS)
def test_a_version_with_levels_tells_the_one_that_holds_and_its_group(levels_server, level):
    colour, held = LEVELS[level]
    answer = levels_server.classify(encode(plain(colour), "PNG")).json()
    assert (answer["level"], answer["box"]) == (level, None)
    assert answer["set"] == held or (level == "unknown" and set(answer["set"]) == set(held))
    assert (answer["confident"], answer["dog"]) == (level == "breed", level != "no_dog")
    if level == "group":
        assert answer["group"].pop("probability") == pytest.approx(1, abs=1e-3)
        names = {
            "name": "warm dog",
            "name_zh": "暖色犬",
            "difference": "By hue.",
            "difference_zh": "",
        }
        assert answer["group"] == {"id": "warm", "members": ["c1", "c2"], **names}
        blue = levels_server.classify(PHOTOS["blue dog"]).json()
        assert (blue["level"], blue["group"]) == ("breed", None)


def test_a_version_without_levels_answers_by_its_own_threshold(levels_server):
    for colour, level in (((200, 0, 0), "breed"), ((200, 200, 0), "unsure"), ((2, 2, 2), "no_dog")):
        answer = levels_server.classify(encode(plain(colour), "PNG"), version=2).json()
        assert [answer[name] for name in ("level", "group", "set", "box")] == [
            level,
            None,
            None,
            None,
        ]
        assert (answer["dog"], answer["confident"]) == (level != "no_dog", level == "breed")


RED_TEXT = text(PHOTOS["red dog"])
SERVED = "models served here: inception_v3"
HALF_A_JPEG = encode(Image.effect_noise((200, 200), 80), "JPEG")[:5000]
REFUSED = {
    "no image": ({}, 400, 'expected "image": the photo as base64 text, received nothing'),
    "an image that is a number": ({"image": 5}, 400, "received a int"),
    "an empty image": ({"image": ""}, 400, "the photo is empty"),
    "no base64": ({"image": "!!"}, 400, "Unable to base64 decode"),
    "no photo": (
        {"image": text(b"hello")},
        415,
        "expected a JPEG, PNG, GIF, BMP, WebP, HEIC or AVIF photo",
    ),
    "encoded twice": ({"image": text(RED_TEXT.encode())}, 415, "encoded twice"),
    "a truncated JPEG": ({"image": text(HALF_A_JPEG)}, 415, "damaged or cut off"),
    "too many pixels": (
        {"image": text(huge_png(12000, 7000))},
        413,
        "84.0 megapixels (12000 x 7000); at most 50",
    ),
    "an unknown model": ({"image": RED_TEXT, "model": "nope"}, 404, SERVED),
    "a model that is a path": ({"image": RED_TEXT, "model": "../inception_v3"}, 404, SERVED),
    "an unknown version": ({"image": RED_TEXT, "version": 9}, 404, "available versions: 2, 1"),
    "an unknown label": (
        {"image": RED_TEXT, "label": "x"},
        400,
        "Unrecognized servable version label: x",
    ),
    "a version and a label": (
        {"image": RED_TEXT, "version": 1, "label": "x"},
        400,
        "received both",
    ),
    "a version that is text": (
        {"image": RED_TEXT, "version": "new"},
        400,
        "version is 'new'; expected a whole number",
    ),
    "a version that is a boolean": (
        {"image": RED_TEXT, "version": True},
        400,
        "expected a whole number",
    ),
    "a model that is a number": (
        {"image": RED_TEXT, "model": 1},
        400,
        "model is 1; expected a string",
    ),
    "top_k of 0": ({"image": RED_TEXT, "top_k": 0}, 400, "top_k is 0; expected 1 to 3"),
    "top_k of 4": ({"image": RED_TEXT, "top_k": 4}, 400, "top_k is 4; expected 1 to 3"),
    "top_k of 1.5": ({"image": RED_TEXT, "top_k": 1.5}, 400, "expected a whole number"),
    "a list": ([1], 400, "expected a JSON object"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("version", [1, 2])
def test_a_wrong_request_is_refused_saying_why(colour_server, case, version):
    fields, status, sentence = REFUSED[case]
    if isinstance(fields, dict):
        fields = fields if {"version", "label"} & set(fields) else {**fields, "version": version}
    assert_refused(colour_server.post("/api/classify", json=fields), status, sentence)


@pytest.mark.parametrize(
    "make_sent",
    [
        lambda: {"data": b'{"image": "' + b"A" * (17 * 2**20) + b'"}'},
        lambda: {"files": {"image": ("a.jpg", b"A" * (17 * 2**20))}},
        lambda: {"data": iter([b"A" * 2**20] * 18), "headers": {"Content-Type": "image/jpeg"}},
    ],
    ids=["JSON", "form", "chunks"],
)
def test_a_body_above_the_limit_is_refused_with_413_after_it_was_read(colour_server, make_sent):
    answer = colour_server.post("/api/classify", **make_sent())
    assert_refused(answer, 413, "at most 16 MiB are taken (DOGSNAP_MAX_BODY_MB)")


def test_a_photo_comes_back_upright_or_is_refused_as_one_to_classify_is(colour_server):
    turned = colour_photos.with_orientation(plain(size=(64, 48)), 6)
    answer = colour_server.post("/api/upright", json={"image": text(turned)}).json()
    with Image.open(io.BytesIO(base64.b64decode(answer["image"]))) as copy:
        assert copy.size == (48, 64)
    for photo, status in ((b"no photo", 415), (huge_png(9000, 9000), 413)):
        assert_refused(colour_server.post("/api/upright", json={"image": text(photo)}), status)


def test_the_models_are_listed_with_versions_states_and_labels(colour_server):
    (model,) = colour_server.get("/api/models").json()["models"]
    assert (model["name"], model["default_version"]) == ("inception_v3", 2)
    versions = [
        (each["version"], each["state"], each["error"], each["classes"])
        for each in model["versions"]
    ]
    assert versions == [(2, "AVAILABLE", "", 3), (1, "AVAILABLE", "", 3)]
    assert [each["runtime"] for each in model["versions"]] == [{"name": "tensorflow"}] * 2
    assert model["labels"] == model["pending_labels"] == {}


def test_a_version_says_whether_its_classes_are_breeds_of_dogs(breeds_server):
    answer = breeds_server.get("/api/models").json()
    told = {}
    for model in answer["models"]:
        told[model["name"]] = [version["dogs"] for version in model["versions"]]
    assert told == {
        "inception_v3": [True, True],
        "squares": [False, False],
        "half_plus_two": [False],
    }
    assert answer["default_model"] == "inception_v3"


LISTED = [{"id": "c1", "size": "toy", **COLOURS[0]}, *COLOURS[1:]]


@pytest.fixture(scope="module")
def breeds_server(start_server, tmp_path_factory, colour_models):
    """A server with facts of a breed and three models: of its breeds, of other classes, and without labels; it may write no file
    above 200 kB.
    """
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    half_plus(2, models / "half_plus_two" / "1")
    own_models.export(models / "squares", 1)
    (models / "breeds.json").write_text('[{"id": "c1", "size": "toy"}]', encoding="utf-8")
    server = start_server(models)
    resource.prlimit(worker_of(server), resource.RLIMIT_FSIZE, (200_000, 200_000))
    server.breeds_file = models / "breeds.json"
    return server


def test_a_model_that_names_nothing_has_no_classes_and_classify_refuses_it(breeds_server):
    models = {model["name"]: model for model in breeds_server.get("/api/models").json()["models"]}
    assert [each["classes"] for each in models["half_plus_two"]["versions"]] == [0]
    said = "half_plus_two version 1 cannot name classes: expected labels in its assets.extra/dogsnap.json, found none; "
    said += "it gives no number for each class, so call it by its tensors, /v1/models/half_plus_two:predict"
    assert_refused(breeds_server.classify(PHOTOS["red dog"], model="half_plus_two"), 400, said)


def test_the_breeds_are_the_classes_of_the_version_that_answers_with_their_facts_and_not_sent_twice(
    breeds_server,
):
    first = breeds_server.get("/api/breeds", params={"model": "inception_v3"})
    assert first.json() == {"breeds": LISTED}
    same = {"If-None-Match": first.headers["ETag"]}
    again = breeds_server.get("/api/breeds", params={"model": "inception_v3"}, headers=same)
    assert (again.status_code, again.content) == (304, b"")


def test_without_facts_the_classes_are_listed_alone(colour_server):
    assert colour_server.get("/api/breeds").json() == {"breeds": list(COLOURS)}


def test_a_version_can_be_chosen_whose_classes_are_listed_and_one_without_is_refused(breeds_server):
    def get(**fields):
        return breeds_server.get("/api/breeds", params=fields)

    for fields in ({"version": 2}, {"version": "2"}, {}):
        assert get(model="squares", **fields).json() == {"breeds": own_models.LABELS}
    for fields, status, said in (
        ({"model": "half_plus_two"}, 400, "half_plus_two version 1 cannot name classes"),
        ({"model": "squares", "version": 1}, 400, "squares version 1 cannot name classes"),
        ({"model": "squares", "version": 9}, 404, "available versions: 2, 1"),
        ({"model": "cat"}, 404, "models served here: half_plus_two, inception_v3, squares"),
        ({"model": "squares", "version": "two"}, 400, "version"),
        ({"model": "squares", "label": "live"}, 400, "version label: live"),
    ):
        assert_refused(get(**fields), status, said)


DAMAGED = [
    "",
    "{",
    "[]",
    "7",
    '{"ranks": 7}',
    '{"ranks": {"c1": "first"}}',
    '{"ranks": {"c1": null}}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_popularity_file_costs_the_order_of_the_breeds_alone(breeds_server, text):
    breeds = breeds_server.breeds_file
    file = breeds.with_name("popularity.json")
    file.write_text(text, encoding="utf-8")
    answer = breeds_server.get("/api/breeds")
    file.unlink()
    assert (answer.status_code, answer.json()["breeds"]) == (200, LISTED)


@pytest.mark.parametrize("text", ["", "[", "7", "[7]", '[{"name": "x"}]', '[{"id": ["c1"]}]'])
def test_a_damaged_file_of_breeds_is_told_in_a_sentence(breeds_server, text):
    file = breeds_server.breeds_file
    before = file.read_bytes()
    file.write_text(text, encoding="utf-8")
    answer = breeds_server.get("/api/breeds")
    file.write_bytes(before)
    assert_refused(answer, 503, "the breeds cannot be read: expected breeds.json")


def test_a_wrong_body_path_or_method_is_told_in_the_one_error_body_with_an_id_that_is_sane(
    colour_server,
):
    for sent, kept in (("my-id.7", True), ("a b<script>", False)):
        number = colour_server.get("/api/nope", headers={"X-Request-Id": sent}).json()["request_id"]
        assert (number == sent, len(number)) == (kept, 7 if kept else 16)
    broken = colour_server.post("/api/classify", data=b"{")
    assert_refused(broken, 400, "expected a JSON object as body, received 1 bytes")
    other_field = colour_server.post("/api/classify", files={"photo": ("a.jpg", b"x")})
    assert_refused(other_field, 400, "received the fields photo (1 bytes)")
    hint = "; GET /openapi.json lists every path with its methods"
    assert_refused(colour_server.get("/api/nope"), 404, f"Not Found: GET /api/nope{hint}")
    assert_refused(
        colour_server.get("/api/classify"), 405, f"Method Not Allowed: GET /api/classify{hint}"
    )
    assert_refused(colour_server.request("DELETE", "/healthz"), 405)
    asked = colour_server.get("/invocations")
    assert_refused(asked, 405, "Method Not Allowed: GET /invocations")
    assert set(asked.headers["Allow"].split(", ")) == {"OPTIONS", "POST"}
    for method in ("GET", "POST", "DELETE"):
        assert_refused(colour_server.request(method, "/nothing"), 404)


def test_a_large_photo_in_a_form_is_not_written_to_a_file(breeds_server):
    """Web frameworks put a form's file above 500 kB into a temporary one; this server could not."""
    photo = encode(plain(RED, (1000, 900)), "BMP")
    response = breeds_server.post("/api/classify", files={"image": ("holiday.bmp", photo)})
    assert response.json()["breeds"][0]["id"] == "c1"
    assert "holiday" not in breeds_server.log()
