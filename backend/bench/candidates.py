"""The candidates that are measured: this server, LitServe and the bare runtime, each started when it is first needed."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from backend.bench import photos, servers
from backend.bench.remote import CannotMeasure, base64_text
from backend.bench.rounds import alternating, load, program

PLAIN, ONE_PASS, LIT_SERVE = "version 2", "version 3 in one pass", "LitServe"
NUMBERS = {PLAIN: 2, ONE_PASS: 4}  # in the server that is measured
CLIENTS = 16
WARM_UP_SECONDS = 2.0


class Bench:
    """The candidates of a run over the real model, and the load that they are measured with; a context manager.

    `seconds`: the length of a round. Raises CannotMeasure if version 2 is missing.
    """

    def __init__(self, models: Path, seconds: float, rounds: int, say: Callable[[str], None]):
        self.seconds, self.rounds, self.say = seconds, rounds, say
        self._real = models / servers.MODEL
        if not self._has(2):
            raise CannotMeasure(f"version 2 of {servers.MODEL} is not below {models}; `make setup` builds it")
        self.texts = [base64_text(photo) for photo in photos.made()]
        self.bodies = [json.dumps({"instances": [text]}) for text in self.texts]
        self._urls: dict[str, str | CannotMeasure] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- candidates ----------------------------------------------------------------------------------------------------

    @contextmanager
    def fresh(self, *numbers: int) -> Iterator[servers.Dogsnap]:
        """A server of its own with these versions, as far as they exist."""
        with tempfile.TemporaryDirectory() as folder:
            versions = [self._real / str(number) for number in numbers if self._has(number)]
            with servers.Dogsnap(Path(folder), versions) as server:
                yield server

    @cached_property
    def server(self) -> servers.Dogsnap:
        return self._stack.enter_context(self.fresh(1, 2, 3))

    def version_3(self) -> Path:
        """Raises CannotMeasure if there is none."""
        if not self._has(3):
            raise CannotMeasure("there is no version 3")
        return self._real / "3"

    def url(self, name: str) -> str:
        """Where a candidate takes requests; at its first use it is started or loaded, and warmed. Raises CannotMeasure."""
        if name not in self._urls:
            try:
                self._urls[name] = self._started(name)
                load(self._urls[name], self.bodies, clients=CLIENTS, seconds=WARM_UP_SECONDS)
            except CannotMeasure as error:
                self._urls[name] = error  # a second attempt would take as long
        found = self._urls[name]
        if isinstance(found, CannotMeasure):
            raise found
        return found

    def _started(self, name: str) -> str:
        if name == LIT_SERVE:
            return self._stack.enter_context(servers.lit_serve(self._real / "2")).url + "/predict"
        if name == ONE_PASS:
            self.version_3()
            folder = self._stack.enter_context(tempfile.TemporaryDirectory())
            built = servers.merged_for_one_pass(self._real / "1", Path(folder))
            self.server.add(built, NUMBERS[ONE_PASS])
        return self.server.predict_url(NUMBERS[name])

    def _has(self, number: int) -> bool:
        return (self._real / str(number) / "saved_model.pb").is_file()

    # -- measures ------------------------------------------------------------------------------------------------------

    def bare(self, runtime: str, *callers: int) -> dict[str, float]:
        """Version 2 in the bare runtime "tensorflow" or "serving" for one round, see `programs/bare_runtime.py`."""
        job = {"saved_model": str(self._real / "2"), "texts": self.texts, "callers": callers, "seconds": self.seconds}
        return program("bare_runtime", runtime=runtime, **job)

    def throughput(self, name: str) -> float:
        """Photos per second of a candidate with many clients, in one round."""
        return load(self.url(name), self.bodies, clients=CLIENTS, seconds=self.seconds).throughput()

    def wait_ms(self, name: str) -> float:
        """The median time of an answer to a single client, in one round."""
        return load(self.url(name), self.bodies, clients=1, seconds=self.seconds).percentile_ms(50)

    def ratio(self, first: Callable[[], float], second: Callable[[], float], unit: str) -> tuple[float, str]:
        """The median of `first` over that of `second`, from alternating rounds, and a note with both.

        Raises CannotMeasure if nothing was answered.
        """
        one, other = (float(np.median(each)) for each in alternating([first, second], self.rounds))
        note = f"{one:.3g} and {other:.3g} {unit}"
        if not (one > 0 and other > 0):  # NaN, too
            raise CannotMeasure(f"there were no answers: {note}")
        return one / other, note
