"""Addresses: addresses as servers take them, and the URL that is shown and asked on this machine."""

import pytest
from dogsnap.addresses import format_address, is_loopback, local_url
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
