"""Behind a proxy that serves it below a path, the app, the console and the page of the API work as at the root."""

import pytest
import requests
from playwright.sync_api import expect
from support.path_proxy import PATH, path_proxy

TOKEN = "0123456789abcdef"
SIZE = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def proxy(start_server, colour_models):
    server = start_server(colour_models, "--admin-token", TOKEN, lasting=True)
    with path_proxy(server, Authorization=f"Bearer {TOKEN}") as proxy:
        yield proxy


def test_the_app_answers_photos_and_is_kept_for_offline(proxy, open_phone, red_dog):
    phone = open_phone(server=proxy, path=f"{PATH[1:]}/")
    assert phone.snap(red_dog) != "failed"
    scope = phone.page.evaluate("navigator.serviceWorker.ready.then(({ scope }) => scope)")
    assert scope == f"{proxy.url}/"
    assert all(sent.startswith(("blob:", "data:")) or PATH not in sent for sent in phone.sent)


@pytest.mark.parametrize("path", ["/console", "/console/"])
def test_the_console_lists_models_and_tries_a_photo(proxy, open_page, red_dog, path):
    page = open_page(proxy, path, SIZE)
    expect(page.locator("#plots canvas")).to_have_count(4)
    page.locator("#photos").set_input_files(red_dog)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#outcome")).to_contain_text("first answers: 0 of 1")


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_the_page_of_the_api_sends_requests(proxy, open_page, path):
    page = open_page(proxy, path, SIZE)
    form = page.locator("[id='api.models']")
    form.locator("summary").click()
    form.get_by_role("button", name="Send").click()
    expect(form.locator("pre")).to_contain_text("inception_v3")


def test_the_document_of_the_api_counts_paths_from_where_it_lies(proxy):
    document = requests.get(f"{proxy.url}/openapi.json", timeout=60).json()
    assert document["servers"] == [{"url": "."}]


@pytest.mark.parametrize(
    ("header", "path"),
    [(PATH, f"{PATH}/"), (f"{PATH}/", f"{PATH}/"), ('/"; rm -rf', "/"), ("//evil", "/")],
)
def test_a_generated_client_asks_below_the_path_that_the_proxy_names(colour_server, header, path):
    client = colour_server.get(
        "/v1/models/inception_v3/gen_client", headers={"X-Forwarded-Prefix": header}
    )
    assert f" {colour_server.url}{path}\n" in client.text
