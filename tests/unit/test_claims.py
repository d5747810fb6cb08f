"""What an answer names is worth by what a person says."""

import pytest
from dogsnap.serving.answers.claims import judge


@pytest.mark.parametrize(
    ("level", "breeds", "said", "right", "holds"),
    [
        ("breed", ["husky"], "right", True, True),
        ("breed", ["husky"], "wrong", False, False),
        ("breed", ["husky"], "husky", True, True),
        ("breed", ["husky"], "poodle", False, False),
        ("breed", ["husky"], "mix", None, None),
        ("breed", ["husky"], "other", False, False),
        ("breed", ["husky"], "no_dog", False, False),
        # A vague answer is as right as its first breed, no more.
        ("group", ["husky", "malamute"], "husky", True, True),
        ("group", ["husky", "malamute"], "malamute", False, True),
        ("group", ["husky", "malamute"], "right", None, True),
        ("group", ["husky", "malamute"], "poodle", False, False),
        ("set", ["husky", "poodle"], "poodle", False, True),
        ("set", ["husky", "poodle"], "right", None, True),
        ("unsure", ["husky"], "husky", True, True),
        ("unsure", ["husky"], "poodle", False, False),
        ("unknown", ["husky"], "other", False, True),
        ("unknown", ["husky"], "husky", True, False),
        ("no_dog", [], "no_dog", True, True),
        ("no_dog", [], "right", True, True),
        ("no_dog", [], "husky", False, False),
    ],
)
def test_the_first_breed_and_the_claim_are_right_wrong_or_open(level, breeds, said, right, holds):
    verdicts = ("right", "wrong", "mix", "other", "no_dog")
    verdict, breed = (said, "") if said in verdicts else ("breed", said)
    assert judge(level, breeds, verdict, breed) == (right, holds)
