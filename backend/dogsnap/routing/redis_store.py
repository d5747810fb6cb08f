"""Switches in Redis, which several servers share: a stream whose ids are the
switches' numbers.

Redis keeps what it has acknowledged only with `appendonly yes` and `appendfsync
always`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dogsnap.addresses import check_url
from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.routing.store import EXPECTED, NumberTaken

TIMEOUT_SECONDS = 2.0
KEY = "dogsnap:switches"
FIELD = b"switch"
TAKEN = "equal or smaller"  # in Redis' error for an id that is not the largest
UNKNOWN = "whether the switch was made, `dogsnap models log` says when Redis answers again"


class RedisStore:
    is_kept = True

    def __init__(self, url: str):
        """Does not connect yet.

        Raises InvalidArgument for a URL that redis-py does not know.
        """
        self._client: Any = _client("--switch-log", url, EXPECTED)
        where = self._client.connection_pool.connection_kwargs
        host = where.get("path") or f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"
        self.place = f"Redis at {host}, database {where.get('db', 0)}"

    def read(self, after: int) -> list[tuple[int, str]]:
        switches = []
        with _talking("cannot be read"):
            for identity, fields in self._client.xrange(KEY, min=f"{after + 1}-0"):
                if FIELD not in fields:
                    raise Unavailable(f"the stream {KEY} in Redis is no log of switches of dogsnap")
                switches.append((int(identity.partition(b"-")[0]), fields[FIELD].decode()))
        return switches

    def append(self, number: int, text: str) -> None:
        with _talking(f"did not take the switch; {UNKNOWN}"):
            try:
                made = self._client.xadd(KEY, {FIELD: text}, f"{number}-0", nomkstream=number > 1)
            except redis.ResponseError as error:
                if TAKEN in str(error):
                    raise NumberTaken from error
                raise
        if made is None:
            raise Unavailable("Redis has lost its switches; the switch was not made")

    def notes(self, kind: str) -> dict[str, str]:
        with _talking("cannot be read"):
            found = self._client.hgetall(f"dogsnap:{kind}")
            return {name.decode(): text.decode() for name, text in found.items()}

    def note(self, kind: str, name: str, text: str) -> None:
        with _talking("cannot be written"):
            self._client.hset(f"dogsnap:{kind}", name, text)

    def forget_note(self, kind: str, name: str) -> None:
        with _talking("cannot be written"):
            self._client.hdel(f"dogsnap:{kind}", name)

    def close(self) -> None:
        self._client.close()


def check_redis(setting: str, url: str, expected: str) -> None:
    """Raises InvalidArgument for a URL that cannot be used, or where Redis refuses its
    user, password or database; it need not answer yet.
    """
    if not url.startswith("unix://"):
        check_url(setting, url, ("redis", "rediss"), expected)
        database = urlsplit(url).path.strip("/")
        if database and not database.isdecimal():  # redis-py would take database 0
            raise InvalidArgument(f"{setting} names no database by its number; {expected}")
    client = _client(setting, url, expected)
    try:
        client.ping()
    except redis.exceptions.NoPermissionError:
        pass  # it knows the user, who needs no PING
    except (redis.AuthenticationError, redis.ResponseError) as error:
        raise InvalidArgument(f"{setting}: Redis refuses us ({error}); {expected}") from error
    except (redis.RedisError, OSError):
        pass
    finally:
        client.close()


def _client(setting: str, url: str, expected: str) -> Any:
    """Raises InvalidArgument for a URL that redis-py does not know."""
    try:
        # No attempt is repeated: the second one could not tell its own switch from another's.
        client = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        client.connection_pool.make_connection()  # its arguments are checked here
        return client
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"{setting} is no Redis URL ({error}); {expected}") from error


@contextmanager
def _talking(trouble: str) -> Iterator[None]:
    """Raises Unavailable, without the URL, which may hold a password."""
    try:
        yield
    except (redis.RedisError, OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"Redis {trouble} ({type(error).__name__}: {error})") from error
