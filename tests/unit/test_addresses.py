"""Addresses: addresses as servers take them, and the URL that is shown and asked on this machine."""

import pytest
from dogsnap.addresses import (
    check_file_name,
    check_url,
    client_address,
    format_address,
    is_loopback,
    local_url,
)
from dogsnap.errors import InvalidArgument
from dogsnap.settings import Settings


def test_an_address_is_written_as_servers_want_it():
    assert format_address("127.0.0.1", 8500) == "127.0.0.1:8500"
    assert format_address("::", 8500) == "[::]:8500"


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        *((host, "localhost") for host in ("127.0.0.1", "0.0.0.0", "::", "")),
        ("192.168.1.5",) * 2,
        ("::1", "[::1]"),
    ],
)
def test_a_server_of_this_machine_or_of_every_interface_is_at_localhost_and_another_at_its_address(
    host, shown
):
    assert local_url(Settings(host=host, port=9)) == f"http://{shown}:9"
    assert (
        local_url(Settings(host=host, port=9, tls_cert="cert.pem", tls_key="key.pem"))
        == f"https://{shown}:9"
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(
            (host, True)
            for host in (
                "localhost",
                "LOCALHOST.",
                "a.localhost",
                "127.0.0.1",
                "127.1",
                "2130706433",
            )
        ),
        *((host, True) for host in ("::1", "[::1]", "0.0.0.0", "::", "::ffff:127.0.0.1")),
        *(
            (host, False)
            for host in ("mylocalhost", "localhost.evil.example", "10.0.0.1", "2001::1", "")
        ),
    ],
)
def test_this_machine_is_known_by_its_names_and_addresses(host, expected):
    assert is_loopback(host) is expected


SIGNS = ["hunter2/1", "hunter2#1", "hunter2?1", "2/hunter2", "2#hunter2", "hunter2:1/2"]


@pytest.mark.parametrize(
    "url",
    [
        *(f"redis://:{password}@redis:6379/0" for password in SIGNS),
        *(f"rediss://user:{password}@redis" for password in SIGNS),
        "redis:6379",
        ":hunter2@redis:6379",
        "redis:hunter2",
        "redis://:6379",
        "redis://",
        "redis://:hunter2@",
        "redis://redis:tcp://10.0.0.1:6379",
        "redis://redis:99999",
        "redis://redis:0",
        "http://:hunter2@redis:6379",
    ],
)
def test_a_url_that_means_something_else_is_refused_and_none_of_it_shown(url):
    with pytest.raises(InvalidArgument, match=r"--switch-log .*; expected a URL") as refused:
        check_url("--switch-log", url, ("redis", "rediss"), "expected a URL")
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("url", "schemes"),
    [
        ("redis://redis", "redis"),
        ("redis://:p%2Fa%23@redis:6379/0?ssl_cert_reqs=none", "redis"),
        ("redis://user:p@ss@[::1]:6379/1", "redis"),
        ("https://host/check?user=a@b&next=/c#d", "https"),
    ],
)
def test_a_url_that_says_what_was_meant_passes(url, schemes):
    check_url("--switch-log", url, [schemes], "expected a URL")


@pytest.mark.parametrize(
    "name",
    ["localhost:6379", "redis:6379/0", "//redis:6379", ":secret@redis:6379", "[::1]:6379",
     "redis:/host", "redis", "memory://", "none", "False", "on", "1", "postgres://h/d",
     "localhost", "10.0.0.5", " "],
)  # fmt: skip
def test_an_address_or_a_wish_does_not_become_a_file(name):
    with pytest.raises(InvalidArgument, match="--feedback is no name of a file") as refused:
        check_file_name("--feedback", name, "expected a file")
    assert "secret" not in refused.value.message
    for file in ("off.db", "/state/redis:6379", "./off", "C:/a", "file:1.db"):
        check_file_name("--feedback", file, "expected a file")


@pytest.mark.parametrize(
    ("forwarded", "proxies", "expected"),
    [
        ("203.0.113.7", 1, "203.0.113.7"),
        ("203.0.113.7:51234", 1, "203.0.113.7"),
        ("6.6.6.6, 203.0.113.7:51234, 10.0.0.1", 2, "203.0.113.7"),
        ("[2001:db8::1]:51234", 1, "2001:db8::1"),
        ('"[2001:DB8:0::1]"', 1, "2001:db8::1"),
        ('"6.6.6.6, 203.0.113.7', 1, "203.0.113.7"),
        ("::ffff:203.0.113.7", 1, "203.0.113.7"),
        ("[::ffff:203.0.113.7]:1", 1, "203.0.113.7"),
        ("203.0.113.7, ,", 1, "203.0.113.7"),
        ("unknown", 1, "unknown"),
        ("host:80", 1, "host"),
        ("203.0.113.7", 0, "10.0.0.9"),
        ("203.0.113.7", 2, "10.0.0.9"),
        ("", 1, "10.0.0.9"),
    ],
)
def test_a_client_has_one_address_however_its_proxies_write_it(forwarded, proxies, expected):
    for peer in ("10.0.0.9", "::ffff:10.0.0.9"):
        assert client_address(peer, forwarded, proxies) == expected
