"""The console in Chromium against a real server: what it shows, what its buttons switch, and users that are refused."""

import re
import shutil
from pathlib import Path

import pytest
from dogsnap.server.middleware import api_keys
from google.protobuf import text_format
from phone import serious_violations
from playwright.sync_api import expect
from support import tiny_models
from support.administration import console_path
from tensorflow_serving.config import model_server_config_pb2

pytestmark = pytest.mark.early

TOKEN = "a-long-random-text"
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models):
    """Dogs in versions 1, 2 and 3, which calls red green; a version 4 that is damaged; and a model without names."""
    folder = tmp_path_factory.mktemp("models")
    dogs = shutil.copytree(colour_models / "inception_v3", folder / "inception_v3")
    tiny_models.confused(dogs / "2", 3)
    (dogs / "4").mkdir()
    (dogs / "4" / "saved_model.pb").write_bytes(b"no model")
    tiny_models.half_plus(2, folder / "half" / "1")
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models, "--poll-seconds", "0.3")


@pytest.fixture(scope="module")
def guarded(start_server, models, tmp_path_factory):
    """A server with a token, whose models and app need a key besides."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    api_keys.add(keys, "friends")
    return start_server(models, "--api-keys", str(keys), environ={"DOGSNAP_ADMIN_TOKEN": TOKEN})


@pytest.fixture
def open_console(open_page):
    """Opens it logged in, as `dogsnap console` does; where a test brings a token of its own, logged out."""

    def open_console(server, size="desktop"):
        path = "/console" if server.own_token else console_path(server)
        page = open_page(server, path, SIZES[size])
        page.on("dialog", lambda dialog: dialog.accept())  # whether a switch is to be forced
        return page

    return open_console


def dogs(page):
    return page.locator("section[data-model=inception_v3]")


def row(page, version: int):
    return dogs(page).locator(f"tr[data-version='{version}']")


def says(page, text: str) -> None:
    expect(page.locator("#message")).to_contain_text(text)


def set_label(page, label: str, version: int) -> None:
    form = dogs(page).locator("form[data-new]")
    form.locator("input").fill(label)
    form.locator("select").select_option(str(version))
    form.get_by_role("button").click()
    says(page, f"label {label} of inception_v3: none -> {version}")


def choose(page, post: str, version: str, said: str) -> None:
    form = dogs(page).locator(f"form[data-post={post}]")
    form.locator("select[name=version]").select_option(version)
    form.get_by_role("button").click()
    says(page, said)


def compare(page, photo: Path) -> None:
    page.locator("#photo").set_input_files(photo)
    page.get_by_role("button", name="Compare").click()


def test_it_shows_models_versions_states_and_the_reason_of_a_failed_load(server, open_console):
    page = open_console(server)
    expect(page.locator("h2")).to_contain_text(["half", "inception_v3", "Switches"])
    expect(row(page, 3)).to_contain_text("AVAILABLE")
    expect(row(page, 3)).to_contain_text("default")
    expect(row(page, 4)).to_contain_text("FAILED")
    expect(row(page, 4).get_by_role("button", name="Load version 4")).to_be_visible()
    expect(dogs(page).locator(".reason")).to_contain_text("version 4: ")


def test_it_shows_requests_errors_and_times_of_each_version(server, open_console):
    for value in (1.0, 2.0, "no number"):
        server.post("/v1/models/half/versions/1:predict", json={"instances": [value]})
    page = open_console(server)
    line = page.locator("section[data-model=half] tr[data-version='1']")
    expect(line).to_be_visible()
    texts = dict(
        line.locator("td").evaluate_all(
            "cells => cells.map(cell => [cell.dataset.title, cell.innerText])"
        )
    )
    assert (texts["Requests"], texts["Refused"], texts["Failed"], texts["Error rate"]) == (
        "3",
        "1",
        "0",
        "0.00 %",
    )
    assert re.fullmatch(r"\d+\.\d ms", texts["Median"])


def test_a_label_is_set_moved_removed_and_the_switch_undone(server, open_console):
    page = open_console(server)
    page.locator("#who").fill("alice")
    set_label(page, "stable", 2)
    form = dogs(page).locator("form[data-name='stable']")
    form.locator("select").select_option("3")
    form.get_by_role("button", name="Move stable", exact=True).click()
    says(page, "label stable of inception_v3: 2 -> 3")
    expect(row(page, 3)).to_contain_text("stable")
    page.locator(".log li").first.get_by_role("button", name="Undo").click()
    says(page, "label stable of inception_v3: 3 -> 2")
    expect(row(page, 2)).to_contain_text("stable")
    newest = page.locator(".log li")
    expect(newest.first).to_contain_text("(undoes")
    expect(newest.first).to_contain_text("alice 127.0.0.1")
    form.get_by_role("button", name="Remove stable").click()
    says(page, "label stable of inception_v3: 2 -> none")


def test_a_label_that_somebody_else_moved_meanwhile_is_not_moved(server, open_console):
    page = open_console(server)
    set_label(page, "raced", 1)
    dogs(page).locator("form[data-name='raced'] select").select_option(
        "3"
    )  # keeps the page from refreshing
    server.post(
        "/api/admin/models/inception_v3/labels/raced", json={"version": 2}
    ).raise_for_status()
    dogs(page).get_by_role("button", name="Move raced", exact=True).click()
    says(page, "points to 2, not 1")
    expect(dogs(page).locator("form[data-name='raced']")).to_contain_text("version 2")


def test_the_default_a_split_and_a_shadow_are_chosen_and_ended(server, open_console):
    page = open_console(server)
    choose(page, "default", "2", "default of inception_v3: not chosen -> 2")
    choose(page, "split", "3", "split of the default of inception_v3: none -> 5 % to 3")
    expect(row(page, 3)).to_contain_text("5 % of default")
    choose(page, "shadow", "1", "shadow of inception_v3: none -> 1")
    expect(dogs(page).locator("form[data-post=shadow]")).to_contain_text("agreed on 0 of 0 photos")
    dogs(page).get_by_role("button", name="End").click()
    says(page, "5 % to 3 -> none")
    choose(page, "shadow", "", "shadow of inception_v3: 1 -> none")
    choose(page, "default", "", "default of inception_v3: 2 -> 3")


def test_a_switch_is_guarded_and_a_rollout_is_paused_resumed_and_ended(server, open_console):
    page = open_console(server)
    form = dogs(page).locator("form[data-post=split]")
    form.get_by_label("guard").check()
    choose(page, "split", "2", "split of the default of inception_v3: none -> 5 % to 2 (forced:")
    says(page, "(guarded)")
    expect(dogs(page).locator(".guard")).to_contain_text("of the default to version 2: too few")
    plan = {"version": 2, "steps": [5], "every": 600, "force": True}
    assert server.post("/api/admin/models/inception_v3/rollout", json=plan).ok
    page.get_by_role("button", name="Refresh").click()
    rollout = dogs(page).locator(".rollout")
    expect(rollout).to_contain_text("Rollout of the default to 2, step 1 of 2 (5 %, then 100)")
    rollout.get_by_role("button", name="Pause").click()
    expect(rollout).to_contain_text("paused")
    rollout.get_by_role("button", name="Resume").click()
    expect(rollout).not_to_contain_text("paused")
    rollout.get_by_role("button", name="End the rollout").click()
    says(page, "5 % to 2 -> none")
    set_label(page, "watched", 1)
    move = dogs(page).locator("form[data-name=watched]")
    move.get_by_label("guard").check()
    move.get_by_label("Move watched to").select_option("3")
    move.get_by_role("button", name="Move watched", exact=True).click()
    says(page, "label watched of inception_v3: 1 -> 3")
    says(page, "(guarded)")
    move.get_by_role("button", name="Remove watched").click()
    says(page, "label watched of inception_v3: 3 -> none")


def test_a_rollout_is_started_at_once_or_for_a_time_and_a_wrong_plan_gives_a_sentence(
    server, open_console
):
    page = open_console(server)
    set_label(page, "steady", 1)
    form = dogs(page).locator("form[data-post=rollout]")
    form.get_by_label("for").select_option("steady")
    form.get_by_label("Roll out").select_option("3")
    for steps, sentence in (
        ("5, 5", "the steps are 5, 5 percent; expected"),
        ("5, ten", "steps is [5, 'ten']; expected a list of numbers"),
        ("5,, 10", "the steps are 5, 0, 10 percent"),
    ):
        form.get_by_label("by").fill(steps)
        form.get_by_role("button").click()
        says(page, sentence)
        form.get_by_label("for").select_option("steady")
        form.get_by_label("Roll out").select_option("3")
    form.get_by_label("by").fill("5, 50")
    form.get_by_label("every").fill("0.5")
    form.get_by_label("from").fill("2020-01-01T03:00")
    form.get_by_role("button").click()
    says(page, "which is over")
    start_rollout(page, "2038-01-01T03:00")
    says(page, "none -> to 3 by 5, 50, 100 % from 2038-01-01T")
    dogs(page).locator(".rollout").get_by_role("button", name="End the rollout").click()
    says(page, "rollout of label steady of inception_v3: to 3 by 5, 50, 100 %")
    start_rollout(page, "")
    says(page, "split of label steady of inception_v3: none -> 5 % to 3")
    (rollout,) = server.get("/api/admin/models/inception_v3").json()["model"]["rollouts"]
    assert (rollout["label"], rollout["steps"], rollout["every"]) == ("steady", [5, 50, 100], 30)
    start_rollout(page, "")
    says(page, "a rollout of label steady of inception_v3 runs already")
    dogs(page).locator(".rollout").get_by_role("button", name="End the rollout").click()
    says(page, "5 % to 3 -> none")
    dogs(page).get_by_role("button", name="Remove steady").click()
    says(page, "label steady of inception_v3: 1 -> none")


def start_rollout(page, at: str) -> None:
    form = dogs(page).locator("form[data-post=rollout]")
    form.get_by_label("for").select_option("steady")
    form.get_by_label("Roll out").select_option("3")
    form.get_by_label("by").fill("5, 50")
    form.get_by_label("every").fill("0.5")
    form.get_by_label("from").fill(at)
    form.get_by_role("button").click()


def test_a_version_is_unloaded_and_loaded_the_page_follows_by_itself_and_a_refusal_is_told(
    server, open_console
):
    page = open_console(server)
    row(page, 1).get_by_role("button", name="Unload").click()
    says(page, "version 1 of inception_v3: as the policy says -> unloaded")
    expect(row(page, 1)).to_contain_text("END")
    row(page, 1).get_by_role("button", name="Load").click()
    expect(row(page, 1)).to_contain_text("AVAILABLE")
    page.locator("section[data-model=half] tr[data-version='1']").get_by_role(
        "button", name="Unload"
    ).click()
    says(page, "the last one available")


@pytest.mark.parametrize("size", SIZES)
def test_a_photo_is_tried_on_two_versions_and_nothing_is_wider_than_the_screen(
    server, open_console, size, red_dog
):
    page = open_console(server, size)
    page.locator("#first").select_option("inception_v3 version 2")
    page.locator("#second").select_option("inception_v3 version 3")
    compare(page, red_dog)
    expect(page.locator("#verdict")).to_contain_text("Different first answer; over 3 breeds")
    answers = page.locator("#result > div:has(meter)")
    expect(answers.nth(0)).to_contain_text("red dog")
    expect(answers.nth(1)).to_contain_text("green dog")
    row_of_red = page.locator("#result tbody tr", has_text="red dog").inner_text()
    assert re.search(r"−\d+\.\d$", row_of_red), row_of_red
    page.locator("#second").select_option("inception_v3 version 1")
    compare(page, red_dog)
    expect(page.locator("#verdict")).to_contain_text("Same first answer")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    red_dog.write_bytes(b"no photo at all")
    compare(page, red_dog)
    says(page, "expected a JPEG, PNG")
    expect(page.locator("#result")).to_be_empty()


def test_without_the_token_nothing_is_shown_and_with_it_all_of_it(guarded, open_console):
    page = open_console(guarded)
    expect(page.locator("#login")).to_be_visible()
    says(page, "takes its token")
    assert page.locator("section[data-model]").count() == 0
    page.get_by_label("Token of this server").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    says(page, "the token is not this server's")
    log_in(page)
    expect(page.locator("#login")).to_be_hidden()
    set_label(page, "guarded", 1)
    page.reload()
    expect(row(page, 1)).to_contain_text("guarded")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("#login")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def log_in(page) -> None:
    page.get_by_label("Token of this server").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(dogs(page)).to_be_visible()


def test_the_token_alone_tries_a_photo_and_a_refusal_does_not_log_out(
    guarded, open_console, red_dog
):
    page = open_console(guarded)
    log_in(page)
    compare(page, red_dog)
    expect(page.locator("#verdict")).to_contain_text("first answer")
    refusal = {"error": "expected a key of this server", "request_id": "r1"}
    page.route("**/api/classify?**", lambda route: route.fulfill(status=401, json=refusal))
    compare(page, red_dog)
    says(page, "expected a key of this server")
    expect(page.locator("#login")).to_be_hidden()
    expect(dogs(page)).to_be_visible()


def test_another_site_gets_nothing_of_it_and_every_part_comes_under_a_strict_policy(
    server, guarded
):
    path = "/console/models"
    for each in (server, guarded):
        assert each.get(path, headers={"Authorization": None}).status_code == 401
    for part in ("/console", "/console/console.js", "/console/console.css", path):
        response = server.get(part)
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_the_link_logs_in_once_and_leaves_neither_code_nor_token_in_address_and_history(
    server, open_page
):
    path = console_path(server)
    page = open_page(server, path, SIZES["desktop"])
    expect(dogs(page)).to_be_visible()
    assert page.url == f"{server.url}/console"
    assert page.evaluate("[history.length, location.hash]") == [2, ""]  # the first is about:blank
    again = open_page(server, path, SIZES["desktop"])
    says(again, "the link was used already")
    expect(again.locator("#login")).to_be_visible()
    assert again.url == f"{server.url}/console"
    assert server.post("/console/login", json={"code": ""}).status_code == 401
    assert (
        server.post("/console/codes", json={}, headers={"Authorization": None}).status_code == 401
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation_in_it(server, open_console, theme):
    page = open_console(server, "phone")
    page.emulate_media(color_scheme=theme)
    expect(dogs(page)).to_be_visible()
    assert serious_violations(page) == []


ODD_MODEL, ODD_LABEL = "m\"<b>&/n's", "a\"b<c>/d  e?f#g%'"


def test_names_are_shown_and_switched_whatever_is_in_them(
    start_server, models, open_console, tmp_path
):
    config = model_server_config_pb2.ModelServerConfig()
    model = config.model_config_list.config.add(
        name=ODD_MODEL, base_path=str(models / "inception_v3")
    )
    model.model_version_policy.specific.versions.extend([1, 2])
    model.version_labels[ODD_LABEL] = 1
    (tmp_path / "models.config").write_text(text_format.MessageToString(config), encoding="utf-8")
    page = open_console(
        start_server(models, "--model-config-file", str(tmp_path / "models.config"))
    )
    expect(page.locator("h2").first).to_have_text(ODD_MODEL)
    form = page.locator("form[data-from]")
    assert form.get_attribute("data-name") == ODD_LABEL
    assert page.locator("#models b, #models c").count() == 0
    page.locator("#who").fill("<img src=x onerror=alert(1)>")
    form.locator("select").select_option("2")
    form.locator("button").first.click()
    says(page, f"label {ODD_LABEL} of {ODD_MODEL}: 1 -> 2".replace("  ", " "))
    expect(page.locator(".log li").first).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator(".log img").count() == 0
    split = page.locator("form[data-post=split]")
    split.locator("select[name=label]").select_option(ODD_LABEL)
    split.locator("select[name=version]").select_option("1")
    split.get_by_role("button").click()
    says(page, "none -> 5 % to 1")
    page.get_by_role("button", name="End").click()
    says(page, "5 % to 1 -> none")
    form.locator("button[type=button]").click()
    says(page, "2 -> none")
    page.locator(".log li").first.get_by_role("button", name="Undo").click()
    says(page, "none -> 2")
