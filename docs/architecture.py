"""Draws docs/architecture.svg from the imports of the code. `make reference` runs it."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "backend" / "dogsnap"
# From the top down. On the left what makes versions, on the right what serves them.
ROWS = (
    ("commands",),
    ("training", "ray"),
    ("exporting", "server"),
    ("networks", "gateway"),
    ("serving",),
    ("routing",),
)
WIDTH, HEIGHT, GAP, MARGIN = 170, 46, 34, 20
COLUMNS = 2
STYLE = (
    "text{font:14px sans-serif;fill:#1d2b2a}"
    "rect{fill:#eef5f2;stroke:#3b6b63}path{fill:none;stroke:#3b6b63;stroke-width:1.5}"
)


def find_imports() -> set[tuple[str, str]]:
    """The folders that import from others, without what follows from the rest:
    where a folder imports from two, and one of these from the other.
    """
    folders = {name for row in ROWS for name in row}
    found = set()
    for file in PACKAGE.rglob("*.py"):
        folder = file.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dogsnap."):
                other = (node.module or "").split(".")[1]
                if {folder, other} <= folders and other != folder:
                    found.add((folder, other))
    follows = set()
    for upper, lower in found:
        if any((upper, between) in found and reaches(between, lower, found) for between in folders):
            follows.add((upper, lower))
    return found - follows


def reaches(upper: str, lower: str, imports: set[tuple[str, str]]) -> bool:
    """Whether a folder imports from another, itself or by others."""
    below = {other for folder, other in imports if folder == upper}
    return lower in below or any(reaches(other, lower, imports) for other in below)


def place_of(name: str) -> tuple[float, float]:
    """Left and top of a folder's box."""
    for place, row in enumerate(ROWS):
        if name in row:
            whole = COLUMNS * WIDTH + (COLUMNS - 1) * GAP
            own = len(row) * WIDTH + (len(row) - 1) * GAP
            left = MARGIN + (whole - own) / 2 + row.index(name) * (WIDTH + GAP)
            return left, MARGIN + place * (HEIGHT + GAP)
    raise ValueError(name)


def draw() -> str:
    """The picture as SVG."""
    width = 2 * MARGIN + COLUMNS * WIDTH + (COLUMNS - 1) * GAP
    height = 2 * MARGIN + len(ROWS) * (HEIGHT + GAP) - GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<title>The folders of the package: each imports only from those below it</title>",
            f"<style>{STYLE}</style>",
            *draw_arrows(),
            *draw_boxes(),
            "</svg>",
            "",
        ]
    )


def draw_arrows() -> Iterator[str]:
    """A line for each pair of folders."""
    for upper, lower in sorted(find_imports()):
        left, top = place_of(upper)
        other_left, other_top = place_of(lower)
        x, other_x = left + WIDTH / 2, other_left + WIDTH / 2
        yield f'<path d="M{x:.0f},{top + HEIGHT} L{other_x:.0f},{other_top}"/>'


def draw_boxes() -> Iterator[str]:
    for row in ROWS:
        for name in row:
            left, top = place_of(name)
            middle = left + WIDTH / 2
            yield f'<rect x="{left:.0f}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
            yield f'<text x="{middle:.0f}" y="{top + 28}" text-anchor="middle">{name}</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
