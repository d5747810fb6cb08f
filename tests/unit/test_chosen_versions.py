"""What is chosen and where it is kept: SQLite and Redis, several servers, what is wrong in a store."""

import logging
import sqlite3
import threading
from contextlib import closing

import pytest
from dogsnap.errors import Aborted, InvalidArgument, Unavailable
from dogsnap.routing.choices import Change, Choices
from dogsnap.routing.chosen_versions import ChosenVersions
from dogsnap.routing.redis_store import KEY, RedisStore
from dogsnap.routing.sqlite_store import SqliteStore
from dogsnap.routing.store import NumberTaken, Store
from dogsnap.routing.store_opening import check_switch_log, open_store
from dogsnap.routing.switch_log import FORMAT, Switch, Who
from support.redis_server import RedisServer, needs_redis

ALICE, BOB = Who("alice", "10.0.0.1"), Who("bob", "10.0.0.2")


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=needs_redis)])
def switch_log(request, tmp_path) -> str:
    """The `--switch-log` of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "switches.db")
    server: RedisServer = request.getfixturevalue("redis_server")
    with server.client() as client:
        client.flushall()
    return server.url


def open_chosen_versions(switch_log: str, on_change=lambda model: None) -> ChosenVersions:
    chosen = ChosenVersions(open_store(switch_log), on_change)
    chosen.follow()
    return chosen


def label_changes(chosen: ChosenVersions, version: int, label: str = "stable") -> list[Change]:
    choices = chosen.choices("half")
    return choices.with_value("label", label, version).changes_since(choices, "half")


def move(
    chosen: ChosenVersions, version: int, by: Who = ALICE, label: str = "stable"
) -> Switch | None:
    return chosen.switch(lambda: label_changes(chosen, version, label), by)


def test_a_store_takes_each_number_once_and_gives_back_what_was_written(switch_log):
    first, second = open_store(switch_log), open_store(switch_log)
    first.append(1, "one")
    with pytest.raises(NumberTaken):
        second.append(1, "other")
    second.append(2, "zwei, 二")
    assert first.read(0) == [(1, "one"), (2, "zwei, 二")]
    assert first.read(1) == [(2, "zwei, 二")]
    assert (first.read(2), first.notes("counts")) == ([], {})
    for text in ("1", "2"):
        first.note("counts", "half", text)
    assert second.notes("counts") == {"half": "2"}


def test_what_one_server_switches_another_one_follows_and_continues(switch_log):
    changed = []
    one, other = open_chosen_versions(switch_log), open_chosen_versions(switch_log, changed.append)
    assert move(one, 1).id == 1
    other.follow()
    assert (other.choices("half").labels, changed) == ({"stable": 1}, ["half"])
    assert move(other, 2, BOB).id == 2  # it reads before it writes
    assert move(one, 3).id == 3
    assert [str(each) for each in one.switches()] == [
        "label stable of half: 2 -> 3",
        "label stable of half: 1 -> 2",
        "label stable of half: none -> 1",
    ]
    assert open_chosen_versions(switch_log).choices("half").labels == {"stable": 3}


def test_of_two_administrators_at_once_the_second_is_told_who_was_first(switch_log):
    one, other = open_chosen_versions(switch_log), open_chosen_versions(switch_log)

    def change_late() -> list[Change]:
        if not other.switches():
            move(other, 2, BOB)
        return label_changes(one, 1)

    with pytest.raises(Aborted, match=r"bob 10\.0\.0\.2 was first: switch 1 \(label stable"):
        one.switch(change_late, ALICE)
    assert one.choices("half").labels == {"stable": 2}


def test_switches_of_different_models_at_once_are_both_made(switch_log):
    one, other = open_chosen_versions(switch_log), open_chosen_versions(switch_log)

    def change_late() -> list[Change]:
        if not other.switches():
            move(other, 2, BOB)
        return [Change("dogs", "shadow", "", None, 1)]

    assert one.switch(change_late, ALICE).id == 2
    assert one.choices("half").labels == {"stable": 2}


def test_many_writers_lose_nothing_and_number_without_gaps(switch_log):
    routers = [open_chosen_versions(switch_log) for _ in range(3)]
    made = []

    def write(chosen: ChosenVersions, name: str) -> None:
        for number in range(20):
            try:
                made.append(move(chosen, 1, label=f"{name}{number}").id)
            except Aborted:
                continue

    threads = [
        threading.Thread(target=write, args=(chosen, name))
        for chosen, name in zip(routers, "abc", strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = open_chosen_versions(switch_log)
    assert sorted(made) == list(range(1, len(made) + 1))
    assert len(last.choices("half").labels) == len(made) > 20


def test_a_default_that_moved_by_itself_is_logged_once_by_several_servers(switch_log):
    one, other = open_chosen_versions(switch_log), open_chosen_versions(switch_log)
    for chosen in (one, other):
        chosen.note_default("half", 2, 3)
    (switch,) = open_chosen_versions(switch_log).switches()
    assert f"{switch.by.name}: {switch}" == "watcher: default of half: 2 -> 3"
    assert one.choices("half").changes_since(Choices(), "half") == []
    one.note_answering("half", 3)
    other.follow()
    assert other.answering("half") == 3


WRONG = {
    "format": (f'{{"format": {FORMAT + 1}}}', "a newer release wrote it; update this server"),
    "no JSON": ("stable=1", "cannot be read"),
    "unknown field": ('{"format": 1, "by": {"name": "x", "rank": 1}}', "cannot be read"),
    "no object": ("[1]", "cannot be read"),
    "no changes": (
        f'{{"format": {FORMAT}, "at": "", "by": {{"name": "x"}}, "changes": [], "undoes": null}}',
        "unknown kinds of changes",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_another_release_wrote_is_a_sentence_and_nothing_changes(switch_log, wrong, caplog):
    text, sentence = WRONG[wrong]
    chosen, store = open_chosen_versions(switch_log), open_store(switch_log)
    move(chosen, 1)
    store.append(2, text)
    caplog.clear()  # of what other tests have left in the same state folder
    with caplog.at_level(logging.ERROR, logger="dogsnap.switches"):
        for _ in range(3):
            chosen.follow()
    assert sentence in chosen.trouble
    assert len(caplog.records) == 1
    with pytest.raises(Unavailable, match=sentence):
        move(chosen, 2)
    assert chosen.choices("half").labels == {"stable": 1}
    late = open_chosen_versions(switch_log)
    assert (late.is_known, sentence in late.trouble, len(store.read(0))) == (False, True, 2)


def test_a_note_that_is_no_version_is_a_sentence(switch_log):
    open_store(switch_log).note("answering", "half", "two")
    chosen = open_chosen_versions(switch_log)
    assert (chosen.is_known, chosen.trouble) == (
        False,
        "the store says that half is answered by 'two'",
    )


def test_a_store_with_a_gap_is_refused_by_what_is_missing(switch_log):
    chosen, store = open_chosen_versions(switch_log), open_store(switch_log)
    move(chosen, 1)
    store.append(5, store.read(0)[0][1])
    chosen.follow()
    assert "incomplete: expected switches 2 to 2, found 5" in chosen.trouble
    assert chosen.choices("half").labels == {"stable": 1}


def test_a_store_that_lost_what_was_acknowledged_takes_no_switch(redis_server_url):
    chosen = open_chosen_versions(redis_server_url.url)
    move(chosen, 1)
    with redis_server_url.client() as client:
        client.flushall()
    with pytest.raises(Unavailable, match="has lost switch 1"):
        move(chosen, 2)
    assert chosen.choices("half").labels == {"stable": 1}
    assert (
        open_chosen_versions(redis_server_url.url).choices("half").changes_since(Choices(), "half")
        == []
    )


@pytest.fixture
def redis_server_url(redis_server):
    with redis_server.client() as client:
        client.flushall()
    return redis_server


@needs_redis
def test_a_redis_without_the_right_or_of_another_kind_is_a_sentence_without_its_password(
    redis_server_url,
):
    with redis_server_url.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+xrange", "+hgetall"
        )
        client.set(KEY, "a text")
    other = open_chosen_versions(redis_server_url.url)
    assert (other.is_known, "WRONGTYPE" in other.trouble) == (False, True)
    with redis_server_url.client() as client:
        client.delete(KEY)
        client.xadd(KEY, {"temperature": "1"}, "1-0")
    assert "is no log of switches of dogsnap" in open_chosen_versions(redis_server_url.url).trouble
    with redis_server_url.client() as client:
        client.delete(KEY)
    for login, sentence in (("reader:secret", "no permissions"), ("reader:wrong", "invalid")):
        url = redis_server_url.url.replace("//", f"//{login}@")
        with pytest.raises(Unavailable, match=sentence) as refused:
            move(ChosenVersions(RedisStore(url)), 1)
        assert "secret" not in refused.value.message


@needs_redis
def test_a_redis_that_is_full_or_away_takes_no_switch_and_then_does_again(redis_server_url):
    chosen = open_chosen_versions(redis_server_url.url)
    move(chosen, 1)
    with redis_server_url.client() as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(Unavailable, match="maxmemory"):
            move(chosen, 2)
        client.config_set("maxmemory", 0)
    assert move(chosen, 2).id == 2
    redis_server_url.kill()
    with pytest.raises(Unavailable, match="Redis cannot be read"):
        move(chosen, 3)
    assert chosen.choices("half").labels == {"stable": 2}
    redis_server_url.start()
    assert move(chosen, 3).id == 3


@needs_redis
def test_a_redis_that_refuses_user_password_or_database_ends_the_start(tmp_path):
    with RedisServer(tmp_path) as server:
        with server.client() as client:
            client.config_set("requirepass", "right")
            client.execute_command("ACL", "SETUSER", "dog", "on", ">x", "~dogsnap:*", "+xadd")
        host = f"127.0.0.1:{server.port}"
        for login in (":right@", "dog:x@"):  # the second one may not PING
            check_switch_log(f"redis://{login}{host}/0")
        for login, path, said in (
            (":wrong@", "/0", "Redis refuses us"),
            ("", "/0", "Redis refuses us"),
            (":right@", "/99", "Redis refuses us"),
            (":right@", "/dogs", "names no database by its number"),
        ):
            with pytest.raises(InvalidArgument, match=f"--switch-log.* {said}"):
                check_switch_log(f"redis://{login}{host}{path}")
    check_switch_log(f"redis://:right@{host}/0")  # it need not answer yet


@pytest.mark.parametrize("url", ["mysql://host/db", "redis://host:port", "redis://h?nonsense=1"])
def test_an_unknown_store_is_refused_by_the_setting(url):
    with pytest.raises(InvalidArgument, match="--switch-log") as refused:
        check_switch_log(url)
    assert "expected the path of a file, redis://host:6379, or off" in refused.value.message


def test_another_file_is_refused_by_its_name(tmp_path):
    (tmp_path / "text").write_text('{"id": 1}\n', encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.execute("CREATE TABLE switches (id INTEGER)")
    with closing(sqlite3.connect(tmp_path / "newer")) as newer:
        newer.execute("PRAGMA user_version = 2")
    for name in ("text", "other", "newer"):
        with pytest.raises(
            InvalidArgument, match=f"/{name} is no log of switches .*choose another"
        ):
            SqliteStore(tmp_path / name)


@needs_redis
def test_a_start_names_the_redis_and_its_switches_without_the_password(redis_server, caplog):
    caplog.set_level(logging.INFO, logger="dogsnap.switches")
    with redis_server.client() as client:
        client.flushall()
        client.config_set("requirepass", "secret")
    try:
        url = redis_server.url.replace("//", "//:secret@")
        move(open_chosen_versions(url), 1)
        again = open_chosen_versions(url.replace("127.0.0.1", "localhost"))
    finally:
        open_store(url)._client.config_set("requirepass", "")
    assert again.choices("half").labels == {"stable": 1}
    assert f"Redis at localhost:{redis_server.port}, database 0, which has 1 switch" in caplog.text
    assert "secret" not in caplog.text


def test_without_a_store_nothing_is_kept():
    store: Store = open_store("off")
    chosen = ChosenVersions(store)
    move(chosen, 1)
    assert (chosen.choices("half").labels, store.is_kept) == ({"stable": 1}, False)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_deleted_or_replaced_file_refuses_switches_and_the_last_choices_go_on(
    tmp_path, is_replaced
):
    file = tmp_path / "switches.db"
    chosen = open_chosen_versions(str(file))
    assert move(chosen, 1)
    file.unlink()
    if is_replaced:
        with closing(sqlite3.connect(file)) as other:
            other.execute("CREATE TABLE others (x)")
    chosen.follow()
    what = "was replaced" if is_replaced else "was deleted"
    assert what in chosen.trouble
    with pytest.raises(Unavailable, match=f"{what} while the server runs; restart the server"):
        move(chosen, 2)
    assert chosen.choices("half").labels == {"stable": 1}
    chosen.close()


def test_a_file_that_gets_the_content_of_another_one_is_away_and_not_wrong(tmp_path):
    store = SqliteStore(tmp_path / "switches.db")
    store.append(1, "{}")
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.execute("CREATE TABLE others (id INTEGER)")
    (tmp_path / "switches.db").write_bytes((tmp_path / "other").read_bytes())
    for act in (lambda: store.read(0), lambda: store.notes("guard"), lambda: store.append(2, "{}")):
        with pytest.raises(Unavailable, match="is no log of switches"):
            act()
