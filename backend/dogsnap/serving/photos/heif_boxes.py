"""Counts what a HEIC or AVIF file names again and again: its bytes in items, and pictures of which
others are made.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress

MOST_DEPTH = 8  # of pictures that are made of others; phones have a grid of tiles
MOST_PLACES = 32_000  # of pieces of items; libheif takes 1000 items of 32 pieces
MANY = 2**60  # pixels or bytes; more than any limit
Part = tuple[bytes, int, int]  # kind, begin and end of the content of a box


def decoded_pixels(contents: bytes) -> int:
    """Of the first picture with its transparency, and of all that they are made of, each as
    often as it is used (ISO/IEC 23008-12); 0 where the boxes cannot be read.
    """
    pixels = 0
    with suppress(IndexError, struct.error):
        for kind, begin, end in _boxes(contents, 0, len(contents)):
            if kind == b"meta":
                pixels += _Items(contents, begin + 4, end).pixels_of_first()
    return pixels


def item_bytes(contents: bytes) -> int:
    """Of all items together, of which each is read into memory (ISO/IEC 14496-12, 8.11.3); 0
    where the boxes cannot be read.
    """
    total = 0
    with suppress(IndexError, struct.error):
        for kind, begin, end in _boxes(contents, 0, len(contents)):
            inside = _boxes(contents, begin + 4, end) if kind == b"meta" else ()
            total += sum(_located(contents, start) for name, start, _ in inside if name == b"iloc")
    return total


def _located(contents: bytes, start: int) -> int:
    """The bytes of all items of an item location box."""
    version, sizes, more = contents[start], contents[start + 4], contents[start + 5]
    offset, length, base = sizes >> 4, sizes & 15, more >> 4
    index = more & 15 if version else 0
    wide = 4 if version == 2 else 2
    place = start + 6 + wide
    total = places = 0
    for _ in range(int.from_bytes(contents[start + 6 : place])):
        place += wide + (4 if version else 2) + base
        (pieces,) = struct.unpack_from(">H", contents, place)
        place += 2
        places += 1 + pieces
        if places > MOST_PLACES:
            return MANY
        for _ in range(pieces):
            place += index + offset
            total += int.from_bytes(contents[place : place + length])
            place += length
    return total


class _Items:
    """The pictures of a file: their sizes, and of which they are made."""

    def __init__(self, contents: bytes, begin: int, end: int):
        self._contents = contents
        self._first = 0
        self._parts = defaultdict[int, Counter[int]](Counter)
        self._sizes = Counter[int]()  # pixels, by item
        self._known = dict[int, int]()
        for kind, start, stop in _boxes(contents, begin, end):
            if kind == b"pitm":
                self._first = self._number(start + 4, 4 if contents[start] else 2)
            elif kind == b"iref":
                self._read_references(start, stop)
            elif kind == b"iprp":
                self._read_sizes(start, stop)

    def pixels_of_first(self) -> int:
        return self._pixels_of(self._first, 0)

    def _pixels_of(self, item: int, depth: int) -> int:
        if depth > MOST_DEPTH:
            return MANY
        if item not in self._known:
            parts = self._parts[item].items()
            pixels = sum(count * self._pixels_of(part, depth + 1) for part, count in parts)
            self._known[item] = self._sizes[item] + pixels
        return self._known[item]

    def _number(self, begin: int, width: int) -> int:
        return int.from_bytes(self._contents[begin : begin + width])

    def _read_references(self, begin: int, end: int) -> None:
        width = 4 if self._contents[begin] else 2  # bytes of an item's number
        for kind, start, _ in _boxes(self._contents, begin + 4, end):
            item, count = self._number(start, width), self._number(start + width, 2)
            numbers = f">{count}{'I' if width == 4 else 'H'}"
            others = struct.unpack_from(numbers, self._contents, start + width + 2)
            if kind == b"dimg":  # it is made of these
                self._parts[item].update(others)
            elif kind == b"auxl":  # it belongs to these
                for other in others:
                    self._parts[other][item] += 1

    def _read_sizes(self, begin: int, end: int) -> None:
        sizes, tables = list[int](), list[int]()
        for kind, start, stop in _boxes(self._contents, begin, end):
            if kind == b"ipco":
                for property_kind, place, _ in _boxes(self._contents, start, stop):
                    is_size = property_kind == b"ispe"
                    width, height = self._number(place + 4, 4), self._number(place + 8, 4)
                    sizes.append(width * height if is_size else 0)
            elif kind == b"ipma":
                tables.append(start)
        for start in tables:
            self._associate(start, sizes)

    def _associate(self, start: int, sizes: list[int]) -> None:
        width = 4 if self._contents[start] else 2
        index_width = 2 if self._contents[start + 3] & 1 else 1
        essential = 1 << (8 * index_width - 1)  # a flag beside the index, which counts from 1
        place = start + 8
        for _ in range(self._number(start + 4, 4)):
            item, count = self._number(place, width), self._contents[place + width]
            place += width + 1
            for _ in range(count):
                index = self._number(place, index_width) & ~essential
                place += index_width
                if 0 < index <= len(sizes):
                    self._sizes[item] = max(self._sizes[item], sizes[index - 1])


def _boxes(contents: bytes, begin: int, end: int) -> Iterator[Part]:
    while begin + 8 <= end:
        size, kind = struct.unpack_from(">I4s", contents, begin)
        content = begin + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", contents, content)
            content += 8
        stop = min(begin + size, end) if size else end
        if stop < content:
            return
        yield kind, content, stop
        begin = stop
