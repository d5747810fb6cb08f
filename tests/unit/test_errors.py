"""The hierarchy of errors."""

from dogsnap import errors
from dogsnap.errors import DogsnapError


def classes_below(base: type, depth: int = 0) -> list[tuple[int, type]]:
    """A class and what derives from it in its module, in the order of definition, with its depth."""
    classes = [(depth, base)]
    for subclass in base.__subclasses__():
        if subclass.__module__ == errors.__name__:
            classes += classes_below(subclass, depth + 1)
    return classes


def test_the_drawn_hierarchy_is_that_of_the_classes():
    drawn = []
    for line in errors.__doc__.splitlines():
        words = line.replace("· ", "").replace("x ", "").split()
        if words and hasattr(errors, words[0]):
            depth = (len(line) - len(line.lstrip())) // 2
            drawn.append((depth, words[0], words[1], words[2].rstrip(",")))
    expected = []
    for depth, error in classes_below(DogsnapError):
        expected.append((depth, error.__name__, error.code, str(error.http_status)))
    assert drawn == expected
