"""What a claim of each level is worth by what a person says, and how it travels in a request id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import DogsnapError
from backend.middleware.client_identity import new_number
from backend.serving.feedback.claims import LEVELS, Claim, is_right
from backend.serving.feedback.request_ids import Facts, Signer, model_digest, read_or_create_secret

HUSKY = Claim(2, "breed", ("husky",), 0.9)
SPITZ = Claim(2, "group", ("husky", "malamute"), 0.9)
PAIR = Claim(2, "set", ("husky", "poodle"), 0.5)
UNSURE = Claim(2, "unsure", ("husky",), 0.3)
UNKNOWN = Claim(2, "unknown", ("husky",), 0.3)
NO_DOG = Claim(2, "no_dog", (), None)
SIGNER = Signer(b"x" * 32)


@pytest.mark.parametrize(
    ("claim", "shown", "said", "right"),
    [
        (HUSKY, HUSKY, "right", True),
        (HUSKY, HUSKY, "wrong", False),
        (HUSKY, HUSKY, "husky", True),
        (HUSKY, HUSKY, "poodle", False),
        (HUSKY, HUSKY, "mix", None),
        (HUSKY, HUSKY, "other", False),
        (HUSKY, HUSKY, "no_dog", False),
        (SPITZ, SPITZ, "malamute", True),
        (SPITZ, SPITZ, "poodle", False),
        (PAIR, PAIR, "poodle", True),
        (UNSURE, UNSURE, "husky", True),
        (UNSURE, UNSURE, "poodle", False),
        (UNKNOWN, UNKNOWN, "other", True),
        (UNKNOWN, UNKNOWN, "husky", False),
        (NO_DOG, NO_DOG, "no_dog", True),
        (NO_DOG, NO_DOG, "right", True),
        (NO_DOG, NO_DOG, "husky", False),
        # What one version was told to be, for another that saw the same photo.
        (SPITZ, HUSKY, "right", True),
        (HUSKY, SPITZ, "right", None),
        (PAIR, SPITZ, "right", None),
        (NO_DOG, HUSKY, "right", False),
        (HUSKY, NO_DOG, "right", False),
        (SPITZ, HUSKY, "wrong", None),
        (HUSKY, SPITZ, "wrong", False),
        (HUSKY, UNKNOWN, "right", False),
    ],
)
def test_a_claim_is_right_wrong_or_open(claim, shown, said, right):
    verdicts = ("right", "wrong", "mix", "other", "no_dog")
    verdict, breed = (said, "") if said in verdicts else ("breed", said)
    assert is_right(claim, shown, verdict, breed) is right


facts = st.builds(
    Facts,
    time=st.integers(0, 2**32 - 1),
    model=st.text().map(model_digest),
    version=st.integers(0, 2**63 - 1),
    split=st.booleans(),
    level=st.sampled_from(LEVELS),
    probability=st.integers(0, 65_535).map(lambda n: n / 65_535),
    classes=st.lists(st.integers(0, 65_535), max_size=8).map(tuple),
)


@given(facts)
def test_what_is_signed_is_opened_the_same(known):
    number = new_number()
    assert SIGNER.opened(SIGNER.signed(number, known)) == (number, known)


def test_ids_of_usual_answers_pass_as_request_ids_of_other_servers():
    longest = Facts(2**32 - 1, model_digest("m"), 1_795_000_000, True, "group", 1.0, tuple(range(100, 109)))
    assert len(SIGNER.signed(new_number(), longest)) <= 64


@given(st.text())
def test_any_text_that_was_not_signed_is_refused(text):
    with pytest.raises(DogsnapError):
        SIGNER.opened(text)


def test_an_empty_secret_is_refused_and_two_processes_make_one(tmp_path):
    first = read_or_create_secret(tmp_path / "secret")
    assert read_or_create_secret(tmp_path / "secret") == first
    assert len(first) == 64
    (tmp_path / "empty").touch()
    with pytest.raises(DogsnapError, match="holds no secret"):
        read_or_create_secret(tmp_path / "empty")
    assert {file.name for file in tmp_path.iterdir()} == {"secret", "empty"}
