"""The content check: asks another service whether a photo may be classified, in the form of WeChat's `img_sec_check`.

Off unless `--content-check URL` is set. A small upright JPEG of the photo, without EXIF, is sent to that URL and nothing else:
no address, no key, no request id.
"""

import logging

import requests

from backend.errors import PhotoRefused, Unavailable
from backend.serving.photos.photo import Photo

# WeChat takes at most 750 x 1334 pixels and 1 MB: developers.weixin.qq.com, security.imgSecCheck.
LONGEST_SIDE = 750
QUALITY = 85
TIMEOUT_SECONDS = 5.0
PASSED, RISKY = 0, 87014  # WeChat's errcode

log = logging.getLogger("dogsnap.content_check")


def require_passed(photo: Photo, url: str) -> None:
    """Ask the service at `url`, which takes the form field `media` and answers {"errcode": 0} or {"errcode": 87014}.

    Raises PhotoRefused for a photo that did not pass, Unavailable without an answer, UnsupportedPhoto if damaged.
    """
    errcode = _errcode(photo.small_jpeg(LONGEST_SIDE, QUALITY), url)
    if errcode == RISKY:
        raise PhotoRefused("the photo did not pass the content check; choose another one")
    if errcode != PASSED:
        log.error("the content check answers errcode %s; expected %d or %d", errcode, PASSED, RISKY)
        raise Unavailable("the content check is not available; try again later")


def _errcode(jpeg: bytes, url: str) -> object:
    """What the service answers; its URL can carry an access token, so that no message shows it."""
    try:
        response = requests.post(url, files={"media": ("photo.jpg", jpeg, "image/jpeg")}, timeout=TIMEOUT_SECONDS)
        response.raise_for_status()
        return response.json()["errcode"]
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        log.error("the content check gives no answer: %s", type(error).__name__)
        return None
