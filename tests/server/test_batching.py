"""Batching of waiting requests: shared runs, one bad request that fails alone, TensorFlow Serving's parameters."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.execution.batching import Batcher, BatchingParameters
from dogsnap.serving.inference.request_kinds import Values
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.settings import Settings
from prometheus_client.exposition import generate_latest
from support import tiny_models
from support.waiting import wait_until

SECONDS = 60
DEPLOY = Path(__file__).parents[2] / "backend" / "deploy"


class Doubler:
    """y = 2 x, and 7 for each row of text; refuses negative numbers. The first run waits until `more` requests wait."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.more = threading.Event()

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.sizes.append(len(inputs["x"]))
        if len(self.sizes) == 1:
            assert self.more.wait(SECONDS)
        if (inputs["x"] < 0).any():
            raise InvalidArgument("negative")
        return {"y": 2 * inputs["x"]}


def together(batcher: Batcher, run: Doubler, first: list[float], *others: list[float]) -> list:
    """The answers, or errors, of requests that wait while the first one runs."""

    def ask(values: list[float]) -> list[float] | str:
        try:
            return batcher.run({"x": np.array(values)})["y"].tolist()
        except InvalidArgument as error:
            return error.message

    with ThreadPoolExecutor(len(others) + 1) as pool:
        answers = [pool.submit(ask, first)]
        wait_until(lambda: run.sizes)
        answers += [pool.submit(ask, values) for values in others]
        wait_until(lambda: len(batcher._waiting) == len(others))
        run.more.set()
        return [answer.result() for answer in answers]


def parameters(**given) -> BatchingParameters:
    return BatchingParameters(**{"max_batch_size": 8, "num_batch_threads": 1, **given})


@pytest.mark.parametrize("raised", [RuntimeError("bad_alloc"), MemoryError()])
def test_all_members_of_a_run_that_fails_in_any_way_are_answered_and_a_thousand_failures_later_the_next_one_is(
    raised,
):
    failing = threading.Event()
    failing.set()

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if failing.is_set():
            raise raised
        return {"y": 2 * inputs["x"]}

    batcher = Batcher(run, parameters(max_batch_size=4, batch_timeout_micros=1000))
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()

    def ask(times: int) -> None:
        for _ in range(times):
            try:
                answers.put(batcher.run({"x": np.array([3.0])})["y"].tolist())
            except (RuntimeError, MemoryError) as error:
                answers.put(error)

    for _ in range(8):  # daemons, since those that are never answered never end
        threading.Thread(target=ask, args=(125,), daemon=True).start()
    assert all(answers.get(timeout=SECONDS) is raised for _ in range(1000))
    failing.clear()
    ask(1)
    assert answers.get(timeout=SECONDS) == [6]


SHARED = {  # parameters, requests, their answers, and the sizes of the runs
    "those that wait": ({}, [[1], [2], [3, 4], [5]], [[2], [4], [6, 8], [10]], [1, 4]),
    "a bad one alone": ({}, [[1], [2], [-3], [4]], [[2], [4], "negative", [8]], [1, 1, 1, 1, 3]),
    "at most 3": (
        {"max_batch_size": 3},
        [[1], [2, 3], [4, 5], [6]],
        [[2], [4, 6], [8, 10], [12]],
        [1, 2, 3],
    ),
    "filled up": (
        {"allowed_batch_sizes": (2, 4, 8)},
        [[1], [2, 3], [4], [5, 6]],
        [[2], [4, 6], [8], [10, 12]],
        [2, 8],
    ),
    "those of one shape": ({}, [[1], [2], [[3, 4]], [5]], [[2], [4], [[6, 8]], [10]], [1, 1, 2]),
}


@pytest.mark.parametrize(("given", "requests", "answers", "sizes"), SHARED.values(), ids=SHARED)
def test_requests_that_wait_share_the_next_run_and_get_their_own_rows(
    given, requests, answers, sizes
) -> None:
    run = Doubler()
    assert together(Batcher(run, parameters(**given)), run, *requests) == answers
    assert sorted(run.sizes) == sizes


def test_a_lone_request_waits_for_others_as_long_as_the_timeout_says_and_a_large_one_does_not() -> (
    None
):
    run = Doubler()
    run.more.set()
    batcher = Batcher(run, parameters(batch_timeout_micros=30_000_000, max_batch_size=2))
    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(batcher.run, {"x": np.array([value])}) for value in (1.0, 2.0))
        assert [first.result(SECONDS)["y"][0], second.result(SECONDS)["y"][0]] == [2, 4]
    assert run.sizes == [2], "the second request came while the first waited, and filled its batch"
    assert batcher.run({"x": np.arange(5.0)})["y"].tolist() == [
        0,
        2,
        4,
        6,
        8,
    ]  # of more rows than a run: alone


def test_more_rows_than_may_wait_are_refused() -> None:
    run = Doubler()
    batcher = Batcher(run, parameters(max_batch_size=2, max_enqueued_batches=1))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batcher.run, {"x": np.array([1.0])})
        wait_until(lambda: run.sizes)
        second = pool.submit(batcher.run, {"x": np.array([2.0, 3.0])})
        wait_until(lambda: batcher._waiting)
        with pytest.raises(
            Unavailable, match=r"2 rows wait for a run already \(max_enqueued_batches\)"
        ):
            batcher.run({"x": np.array([4.0])})
        run.more.set()
        assert [each.result(SECONDS)["y"].tolist() for each in (first, second)] == [[2], [4, 6]]


def test_an_output_without_a_row_for_each_row_is_run_for_each_request_by_itself() -> None:
    run = Doubler()
    batcher = Batcher(lambda inputs: {"y": run(inputs)["y"].sum()}, parameters())
    assert together(batcher, run, [1], [2], [3]) == [2, 4, 6]
    assert sorted(run.sizes) == [1, 1, 1, 2]


def test_strings_keep_their_zero_bytes_and_a_fixed_first_dimension_is_not_batched(tmp_path) -> None:
    servable = LocalServable(ServableId("texts", 1), tiny_models.decoders(tmp_path / "1"))
    servable.enable_batching(parameters(allowed_batch_sizes=(8,)))
    assert set(servable._batchers) == {"serving_default", "of_examples"}
    single = LocalServable(ServableId("one", 1), tiny_models.constant(tmp_path / "2"))
    single.enable_batching(parameters())
    assert single._batchers == {}


def test_a_signature_with_an_output_that_has_no_open_first_dimension_is_not_batched(
    tmp_path,
) -> None:
    x = tiny_models.spec(tf.float32, None)
    unknown = {"y": lambda x: tf.ensure_shape(tf.numpy_function(np.copy, [x], tf.float32), None)}
    signatures = {
        "serving_default": lambda x: {"y": 2 * x},
        "names": lambda x: {"y": 2 * x, "names": tf.constant(["a", "b", "c", "d"])},
        "mean": lambda x: {"y": 2 * x, "mean": tf.reduce_mean(x)},
        "unknown": lambda x: {"y": unknown["y"](x)},
    }
    made = {name: tiny_models.signature(each, x) for name, each in signatures.items()}
    servable = LocalServable(ServableId("m", 1), tiny_models.save(tmp_path / "1", **made))
    servable.enable_batching(parameters())
    assert set(servable._batchers) == {"serving_default"}
    with ThreadPoolExecutor(4) as pool:
        bodies = [{"x": np.array([number], np.float32)} for number in range(4)]
        answers = list(
            pool.map(lambda body: servable.run(servable.signature("names"), body), bodies)
        )
    assert all(answer["names"].tolist() == [b"a", b"b", b"c", b"d"] for answer in answers)
    assert [answer["y"].tolist() for answer in answers] == [[0.0], [2.0], [4.0], [6.0]]


def test_the_size_of_a_batch_is_what_one_run_held(tmp_path) -> None:
    @tf.function(input_signature=[tiny_models.spec(tf.float32, None)])
    def serving_default(x):
        return {"y": x / 2 + 2}

    tiny_models.save(tmp_path / "models" / "half_plus_two" / "1", serving_default=serving_default)
    sizes = "allowed_batch_sizes: 4 allowed_batch_sizes: 8"
    file = written(
        tmp_path,
        f"max_batch_size {{ value: 8 }} batch_timeout_micros {{ value: 60000000 }} {sizes}",
    )
    batching = {"enable_batching": True, "batching_parameters_file": str(file), "run_threads": 8}
    settings = Settings(models=tmp_path / "models", **batching)
    predictor = create_predictor(settings, ModelSpec("half_plus_two"))

    def ask(number: float) -> list[float]:
        works = [Values(lambda _: {"x": np.array([number], np.float32)})]
        return predictor.answer(ModelSpec("half_plus_two"), works)[0].outputs["y"].tolist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(16))) == [[number / 2 + 2] for number in range(16)]
    page = generate_latest(predictor.metrics.registry).decode()
    predictor.close()
    sample = 'dogsnap_batch_size_{}{{model="half_plus_two",version="1"}} {}'
    assert sample.format("count", 2.0) in page
    assert sample.format("sum", 16.0) in page


def written(folder: Path, text: str) -> Path:
    file = folder / "batching_parameters.txt"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_file_for_tensorflow_serving_is_read_and_what_it_leaves_out_is_as_there(
    tmp_path,
) -> None:
    read = BatchingParameters.read(DEPLOY / "batching_parameters.txt")
    assert read == BatchingParameters(8, 2000, 16, 1, (1, 2, 4, 8))
    read = BatchingParameters.read(written(tmp_path, "thread_pool_name { value: 'pool' }"))
    assert (read.max_batch_size, read.batch_timeout_micros, read.max_enqueued_batches) == (
        1000,
        0,
        10,
    )
    text = "max_batch_size { value: 64 } max_execution_batch_size { value: 8 }"
    assert BatchingParameters.read(written(tmp_path, text)).max_batch_size == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "max_batch_sise { value: 8 }",
            "expected TensorFlow Serving's BatchingParameters as text: .*max_batch_sise",
        ),
        ("max_batch_size { value: 0 }", "expected numbers of at least 1"),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4",
            "rising numbers that end with max_batch_size, 8",
        ),
        (
            "pad_variable_length_inputs: true",
            "leave it out: requests of other shapes run by themselves",
        ),
    ],
)
def test_a_file_that_does_not_work_is_refused_in_a_sentence(tmp_path, text, said) -> None:
    with pytest.raises(InvalidArgument, match=said):
        BatchingParameters.read(written(tmp_path, text))
