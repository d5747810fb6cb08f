"""What the console's cards say of a version beside the default one."""

import pytest
from dogsnap.server.protocols.console_pages import _compare

USUAL = {"requests": 600, "refused": 0, "failed": 0, "p50_ms": 2.0, "p95_ms": 9.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p95_ms": 24.0}, "No worse than version 2, the default"),
        ({"p50_ms": 4.1}, "Slower than version 2, the default: 0.0 % errors against 0.0 %, median"),
        ({"refused": 10}, "Worse than version 2, the default: 14.7 % errors against 0.0 %"),
    ],
)
def test_a_version_is_slower_by_its_median_not_by_its_few_slowest_requests(changes, words):
    compared = _compare({2: USUAL, 3: {**USUAL, "requests": 68, **changes}}, 2)
    assert list(compared) == [3]
    assert compared[3]["text"].startswith(words)
    assert compared[3]["is_worse"] == (not words.startswith("No"))
