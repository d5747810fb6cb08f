"""Runs work in a process of its own: TensorFlow frees the memory of a network
in no other way, and uses one core to build one.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

import click

Result = TypeVar("Result")


@contextmanager
def beside(
    work: Callable[..., Result], *arguments: object, **named: object
) -> Iterator[Future[Result]]:
    """The future result of `work`, which runs beside the block in a process
    that then ends.

    Raises click.ClickException if the process was killed.
    """
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            yield process.submit(work, *arguments, **named)
    except BrokenProcessPool:
        raise click.ClickException(
            "the process that builds was killed, perhaps for want of memory (it takes "
            "about 2 GiB); nothing is written"
        ) from None
