"""The app and a server that asks for keys: refused without one, answered with one that a link contains."""

from dogsnap.server.middleware import api_keys


def test_the_app_is_locked_out_without_a_key_and_keeps_that_of_a_link(
    own_server, open_phone, red_dog, tmp_path
):
    key = api_keys.add(tmp_path / "keys.json", "friends")
    server = own_server("--api-keys", str(tmp_path / "keys.json"))
    stranger = open_phone(server=server)
    stranger.choose(red_dog)
    assert stranger.wait_for_answer() == "failed"
    assert "密钥" in stranger.screen.locator(".failure").inner_text()
    friend = open_phone(server=server, path=f"#/pages/home/home?key={key}")
    assert friend.snap(red_dog) == "breed"
    friend.page.goto(f"{server.url}/")
    friend.page.reload()
    assert friend.snap(red_dog) == "breed"
    assert key not in server.log()
