"""The mini program's files: served with a strict policy, revalidated, gzipped, and nothing beside them."""

import pytest
from dogsnap.server.app import init_messages
from dogsnap.server.protocols import web_app
from dogsnap.settings import Settings
from flask import Flask
from flask.testing import FlaskClient


@pytest.fixture
def client(tmp_path) -> FlaskClient:
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text("<!doctype html>", encoding="utf-8")
    (tmp_path / "dist" / "app.js").write_text("let a = 1;\n" * 1000, encoding="utf-8")
    (tmp_path / "dist" / "assets" / "dog.png").write_bytes(b"\x89PNG" * 1000)
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    app = Flask("test", static_folder=None)
    init_messages(app, Settings())
    app.register_blueprint(web_app.blueprint(tmp_path / "dist"))
    return app.test_client()


@pytest.mark.parametrize("path", ["/", "/app.js", "/assets/dog.png"])
def test_every_file_comes_with_the_strict_policy_and_is_revalidated(client, path):
    response = client.get(path, buffered=True)
    assert response.status_code == 200
    assert (
        "default-src 'none'; script-src 'self'; style-src 'self'"
        in response.headers["Content-Security-Policy"]
    )
    assert response.headers["Cache-Control"] == "no-cache"
    again = client.get(path, headers={"If-None-Match": response.headers["ETag"]}, buffered=True)
    assert (again.status_code, again.data) == (304, b"")


def test_scripts_are_gzipped_for_clients_that_accept_it_and_pictures_are_not(client):
    script = client.get("/app.js", headers={"Accept-Encoding": "gzip"}, buffered=True)
    assert script.headers["Content-Encoding"] == "gzip"
    assert len(script.data) < 1000
    assert (
        client.get(
            "/app.js", headers={"If-None-Match": script.headers["ETag"]}, buffered=True
        ).status_code
        == 304
    )
    picture = client.get("/assets/dog.png", headers={"Accept-Encoding": "gzip"}, buffered=True)
    assert "Content-Encoding" not in picture.headers


def test_what_is_not_among_the_files_is_not_found_and_an_app_that_was_not_built_says_how_to_build_it(
    client, tmp_path
):
    for path in (
        "/nope.js",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/assets/../../secret.txt",
        "/a/b",
    ):
        response = client.get(path, buffered=True)
        assert (response.status_code, set(response.get_json())) == (404, {"error", "request_id"})
    (tmp_path / "dist" / "index.html").unlink()
    response = client.get("/")
    assert (response.status_code, "run `make setup`" in response.get_json()["error"]) == (503, True)
