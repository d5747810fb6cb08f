"""The candidates that are measured: this server, LitServe and the bare runtime, each started when it is first needed."""

import base64
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from bench import photos, servers
from bench.program_runs import CannotMeasure, load, program

CLIENTS = 16
ONE_PASS = 4  # its number in the server that is measured
WARM_UP_SECONDS = 2.0


class Bench(ExitStack):
    """The candidates of a run over the real model, and the load that they are measured with; a context manager.

    `seconds`: the length of a round. Raises CannotMeasure if version 2 is missing.
    """

    def __init__(self, models: Path, seconds: float, rounds: int, say: Callable[[str], None]):
        super().__init__()
        self.seconds, self.rounds, self.say = seconds, rounds, say
        self._real = models / servers.MODEL
        if not self._has(2):
            raise CannotMeasure(
                f"version 2 of {servers.MODEL} is not below {models}; `make setup` builds it"
            )
        self.texts = [base64.urlsafe_b64encode(photo).decode() for photo in photos.made()]
        self.bodies = [json.dumps({"instances": [text]}) for text in self.texts]

    @contextmanager
    def fresh(self, *numbers: int) -> Iterator[servers.Dogsnap]:
        """A server of its own with these versions, as far as they exist."""
        with tempfile.TemporaryDirectory() as folder:
            versions = [self._real / str(number) for number in numbers if self._has(number)]
            with servers.Dogsnap(Path(folder), versions) as server:
                yield server

    @cached_property
    def server(self) -> servers.Dogsnap:
        return self.enter_context(self.fresh(1, 2, 3))

    def version_3(self) -> Path:
        """Raises CannotMeasure if there is none."""
        if not self._has(3):
            raise CannotMeasure("there is no version 3")
        return self._real / "3"

    @cached_property
    def plain(self) -> str:
        """Where version 2 takes requests."""
        return self._warmed(self.server.predict_url(2))

    @cached_property
    def one_pass(self) -> str:
        """Where version 3 without its second pass, which is merged for it, takes requests."""
        self.version_3()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        built = servers.merged_for_one_pass(
            self._real / "1", Path(folder)
        )  # before a server is started for nothing
        self.server.add(built, ONE_PASS)
        return self._warmed(self.server.predict_url(ONE_PASS))

    @cached_property
    def lit_serve(self) -> str:
        """Where LitServe takes requests for version 2."""
        return self._warmed(
            self.enter_context(servers.lit_serve(self._real / "2")).url + "/predict"
        )

    def _warmed(self, url: str) -> str:
        load(url, self.bodies, clients=CLIENTS, seconds=WARM_UP_SECONDS)
        return url

    def _has(self, number: int) -> bool:
        return (self._real / str(number) / "saved_model.pb").is_file()

    def bare(self, runtime: str, *callers: int) -> dict[str, float]:
        """Version 2 in the bare runtime "tensorflow" or "serving" for one round, see `programs/bare_runtime.py`."""
        job = {
            "saved_model": str(self._real / "2"),
            "texts": self.texts,
            "callers": callers,
            "seconds": self.seconds,
        }
        return program("bare_runtime", runtime=runtime, **job)

    def throughput(self, url: str) -> float:
        """Photos per second with many clients, in one round."""
        return load(url, self.bodies, clients=CLIENTS, seconds=self.seconds).throughput()

    def ratio(
        self, first: Callable[[], float], second: Callable[[], float], unit: str
    ) -> tuple[float, str]:
        """The median of `first` over that of `second`, and a note with both. Raises CannotMeasure if nothing was answered.

        Their rounds alternate, so that changes of the machine's speed affect both.
        """
        one, other = np.median([(first(), second()) for _ in range(self.rounds)], axis=0).tolist()
        note = f"{one:.3g} and {other:.3g} {unit}"
        if not (one > 0 and other > 0):  # NaN, too
            raise CannotMeasure(f"there were no answers: {note}")
        return one / other, note
