"""Who may administer: whoever has the token, and nobody else."""

import pytest
from dogsnap.errors import PermissionDenied, Unauthenticated
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.settings import Settings

TOKEN = "a long random text"
WITH_TOKEN = Settings(admin_token=TOKEN)
# As nginx sends a stranger's request from loopback, and as a page of the server itself does.
LOCAL = {"Host": "127.0.0.1:8501", "Origin": "http://127.0.0.1:8501"}


def test_a_client_with_the_token_may_administer_whatever_else_it_sends():
    for headers in ({}, {"X-Forwarded-For": "1.2.3.4", "Origin": "https://example.com"}):
        check_access(WITH_TOKEN, {**headers, "Authorization": f"Bearer {TOKEN}"})
        check_access(WITH_TOKEN, {**headers, "Authorization": f"bearer  {TOKEN} "})


@pytest.mark.parametrize("text", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN])
def test_without_the_token_nobody_may_and_is_told_where_it_is(text):
    with pytest.raises(Unauthenticated, match="Authorization: Bearer <token>"):
        check_access(WITH_TOKEN, {**LOCAL, "Authorization": text})


@pytest.mark.parametrize("text", [f"{TOKEN}x", TOKEN[:-1], "é\udce9"])
def test_another_token_is_not_taken_and_the_right_one_not_told(text):
    with pytest.raises(Unauthenticated, match="the token is not this server's") as caught:
        check_access(WITH_TOKEN, {**LOCAL, "Authorization": f"Bearer {text}"})
    assert TOKEN not in caught.value.message + repr(WITH_TOKEN)


@pytest.mark.parametrize("headers", [LOCAL, {"Authorization": "Bearer "}, {}])
def test_a_server_without_a_token_is_administered_by_nobody(headers):
    with pytest.raises(PermissionDenied, match="start it with --admin-token"):
        check_access(Settings(), headers)
