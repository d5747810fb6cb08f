"""The app on a home screen: its manifest and icons, and that it opens without a server."""

import io
import signal

import requests
from PIL import Image


def test_the_manifest_names_icons_that_are_there(open_phone, app_server):
    phone = open_phone()
    manifest = requests.get(
        phone.page.locator("link[rel=manifest]").evaluate("each => each.href"), timeout=60
    )
    assert manifest.json()["display"] == "standalone"
    for icon in manifest.json()["icons"]:
        picture = requests.get(f"{app_server.url}/{icon['src']}", timeout=60)
        with Image.open(io.BytesIO(picture.content)) as opened:
            assert f"{opened.width}x{opened.height}" == icon["sizes"]
    session = phone.context.new_cdp_session(phone.page)
    assert session.send("Page.getAppManifest")["errors"] == []


def test_without_a_server_the_app_opens_with_its_history(open_phone, own_server, dog):
    server = own_server()
    phone = open_phone(server=server)
    phone.page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    phone.snap(dog)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(timeout=60)
    phone.page.goto("about:blank")
    phone.page.goto(phone.url)
    phone.button("camera").wait_for()
    phone.screen.locator(".recent-item").wait_for()
    phone.open("history", ".entry")
