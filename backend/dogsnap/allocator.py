"""Configures the C library's memory allocator, so that the server's memory does
not grow with its threads.
"""

import ctypes
from contextlib import suppress

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # malloc.h of glibc
ARENAS = 2
LARGE = 128 * 1024  # bytes; glibc's initial threshold for mmap


def share_arenas() -> None:
    """Let all threads of this process and its children share a few malloc
    arenas.

    By default glibc creates up to eight arenas per core, and memory freed in
    one is not reused in another: 2,059 photos of various sizes increased the
    process by 44 to 54 MiB; with two arenas it was 42 MiB smaller than before
    them (x86-64, glibc 2.36). Does nothing with other C libraries.
    """
    _call("mallopt", M_ARENA_MAX, ARENAS)


def give_back_large() -> None:
    """Return blocks of the size of photos to the system when they are freed.

    Only for a gateway.

    By default glibc raises its mmap threshold with the first large block that
    is freed: a gateway then used 3.5 times the size of the photos in flight and
    kept it afterwards; with a fixed threshold it is twice, and nothing
    afterwards. In a process that runs networks, intermediate results would be
    mapped and cleared for each photo.
    """
    _call("mallopt", M_MMAP_THRESHOLD, LARGE)


def give_back_free() -> None:
    """Return free memory of the heap to the system. Does nothing without glibc."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    with suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)
