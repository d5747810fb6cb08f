"""Who may administer: the rules one by one."""

import pytest
from dogsnap.errors import PermissionDenied, Unauthenticated
from dogsnap.server.middleware.admin_auth import check_access, is_loopback
from dogsnap.settings import Settings

LOCAL = Settings()
OPEN = Settings(host="0.0.0.0")
TOKEN = "a long random text"
WITH_TOKEN = Settings(host="0.0.0.0", admin_token=TOKEN)
HOST = {"Host": "localhost:8501"}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8501", "127.0.0.1:8501", "[::1]:8501"])
def test_this_machine_may_administer_a_server_of_this_machine(address, host):
    check_access(LOCAL, address, {"Host": host})
    for origin in ("http://localhost:8501", "HTTP://LOCALHOST:8501"):  # a page of the server itself
        check_access(LOCAL, address, {**HOST, "Origin": origin, "Sec-Fetch-Site": "same-origin"})


@pytest.mark.parametrize(
    ("settings", "address", "headers", "sentence"),
    [
        (OPEN, "127.0.0.1", HOST, "listens on 0.0.0.0 and has no token"),
        (Settings(host=""), "127.0.0.1", HOST, "listens on every interface and has no token"),
        (
            Settings(host="192.168.1.5"),
            "127.0.0.1",
            HOST,
            "listens on 192.168.1.5 and has no token",
        ),
        (LOCAL, "192.168.1.9", HOST, "came from 192.168.1.9"),
        (LOCAL, "", HOST, "only this machine"),
        (LOCAL, "127.0.0.1", {**HOST, "X-Forwarded-For": "127.0.0.1"}, "through a proxy"),
        (LOCAL, "127.0.0.1", {**HOST, "Forwarded": "for=1.2.3.4"}, "through a proxy"),
        (LOCAL, "127.0.0.1", {"Host": "evil.example:8501"}, "names the host evil.example:8501"),
        (LOCAL, "127.0.0.1", {"Host": "localhost.evil.example"}, "names the host"),
        (LOCAL, "127.0.0.1", {"Host": "127.0.0.1.evil.example"}, "names the host"),
        (
            LOCAL,
            "127.0.0.1",
            {**HOST, "Origin": "https://evil.example"},
            "a page of https://evil.example",
        ),
        (
            LOCAL,
            "127.0.0.1",
            {**HOST, "Origin": "http://localhost:3000"},
            "a page of http://localhost:3000",
        ),
        (LOCAL, "127.0.0.1", {**HOST, "Origin": "null"}, "a page of null"),
        (LOCAL, "127.0.0.1", {**HOST, "Sec-Fetch-Site": "cross-site"}, "a page of another site"),
        (LOCAL, "127.0.0.1", {**HOST, "Sec-Fetch-Site": "same-site"}, "a page of another site"),
    ],
)
def test_without_a_token_no_other_machine_may_administer(settings, address, headers, sentence):
    with pytest.raises(PermissionDenied, match=sentence):
        check_access(settings, address, headers)


@pytest.mark.parametrize("address", ["127.0.0.1", "192.168.1.9", ""])
def test_a_client_with_the_token_may_administer_from_anywhere(address):
    check_access(
        WITH_TOKEN, address, {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "1.2.3.4"}
    )
    check_access(WITH_TOKEN, address, {"Authorization": f"bearer  {TOKEN} "})


@pytest.mark.parametrize(
    ("authorization", "sentence"),
    [
        *(
            (text, "Authorization: Bearer <token>")
            for text in ("", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN)
        ),
        *(
            (f"Bearer {text}", "the token is not this server's")
            for text in (f"{TOKEN}x", TOKEN[:-1], "é\udce9")
        ),
    ],
)
def test_with_a_token_even_this_machine_has_to_send_it(authorization, sentence):
    with pytest.raises(Unauthenticated, match=sentence) as caught:
        check_access(WITH_TOKEN, "127.0.0.1", {**HOST, "Authorization": authorization})
    assert TOKEN not in caught.value.message + repr(WITH_TOKEN)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example", "1", "[::]"]
)
def test_a_host_that_others_reach_is_no_loopback(host):
    assert not is_loopback(host)
