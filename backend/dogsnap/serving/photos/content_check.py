"""Asks another service whether a photo may be classified, in the form of
WeChat's `img_sec_check`.

It gets a small upright JPEG of the photo, without EXIF, and nothing else: no
address, no key, no request id.
"""

import logging
import time

import requests

from dogsnap.addresses import proxies_of
from dogsnap.errors import DeadlineExceeded, PhotoRefused, Unavailable
from dogsnap.serving.execution.executor import Executor
from dogsnap.serving.photos.photo import Photo, check

# WeChat takes at most 750 x 1334 pixels and 1 MB: developers.weixin.qq.com, security.imgSecCheck.
LONGEST_SIDE = 750
QUALITY = 85
TIMEOUT_SECONDS = 5.0  # from the request to the answer, waiting for others included
# photos that are checked at a time, and that wait
CHECKS = 16
WAITING = 64
# WeChat's errcode
PASSED = 0
RISKY = 87014
NOT_AVAILABLE = "the content check is not available; try again later"

log = logging.getLogger("dogsnap.content_check")


class ContentCheck:
    """Asks the service at `url`, which takes the form field `media` and answers
    {"errcode": 0} or {"errcode": 87014}.

    In threads of its own: one that the service does not answer is busy for as
    long as the service holds the connection, and keeps a place, but no client
    waits for it longer than TIMEOUT_SECONDS.
    """

    def __init__(self, url: str, max_pixels: int):
        self._url = url
        self._max_pixels = max_pixels
        self._executor = Executor(CHECKS, WAITING, "content-check")

    def require_passed(self, contents: bytes) -> Photo:
        """The photo, which passed; `contents`: the bytes of its file.

        Raises PhotoRefused for one that did not pass, Unavailable without an
        answer, Full, and what `photo.check` raises.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        try:
            photo, errcode = self._executor.run(lambda: self._ask(contents), deadline)
        except DeadlineExceeded:
            log.error("the content check gives no answer within %g s", TIMEOUT_SECONDS)
            raise Unavailable(NOT_AVAILABLE) from None
        if errcode == RISKY:
            raise PhotoRefused("the photo did not pass the content check; choose another one")
        if errcode != PASSED:
            log.error(
                "the content check answers errcode %s; expected %d or %d", errcode, PASSED, RISKY
            )
            raise Unavailable(NOT_AVAILABLE)
        return photo

    def _ask(self, contents: bytes) -> tuple[Photo, object]:
        photo = check(contents, self._max_pixels)
        return photo, _errcode(photo.small_jpeg(LONGEST_SIDE, QUALITY), self._url)


def _errcode(jpeg: bytes, url: str) -> object:
    """What the service answers; its URL can carry an access token, so that no
    message shows it. Raises Unavailable without an answer.
    """
    try:
        response = requests.post(
            url,
            files={"media": ("photo.jpg", jpeg, "image/jpeg")},
            timeout=TIMEOUT_SECONDS,
            proxies=proxies_of(url),
        )
        response.raise_for_status()
        return response.json()["errcode"]
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        log.error("the content check gives no answer: %s", type(error).__name__)
        raise Unavailable(NOT_AVAILABLE) from None
