"""Addresses: addresses as servers take them, and the URL that is shown and asked on this machine."""

import pytest

from backend.addresses import address, local_url
from backend.settings import Settings


def test_an_address_is_written_as_servers_want_it():
    assert address("127.0.0.1", 8500) == "127.0.0.1:8500"
    assert address("::", 8500) == "[::]:8500"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", ""])
def test_a_server_of_this_machine_or_of_every_interface_is_at_localhost(host):
    assert local_url(Settings(host=host, port=9)) == "http://localhost:9"


def test_a_server_of_one_address_is_there_alone():
    assert local_url(Settings(host="192.168.1.5", port=9)) == "http://192.168.1.5:9"
    assert local_url(Settings(host="::1", port=9)) == "http://[::1]:9"


def test_with_a_certificate_it_is_https():
    assert local_url(Settings(tls_cert="cert.pem", tls_key="key.pem")) == "https://localhost:8501"
