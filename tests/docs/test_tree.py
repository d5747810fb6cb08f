"""The tree of `backend/dogsnap/`: one direction of imports, and nothing that has no place in the table below."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "backend" / "dogsnap"
# From the bottom up: a module imports from its own folder, and from the lines above it. A folder stands for all in it.
FLOORS = (
    ("flag_names",),
    (
        "errors",
        "files",
        "allocator",
        "tensorflow_import",
        "memory",
        "message_files",
        "schemas",
        "processor",
        "logs",
        "photo_endings",
        "settings",
    ),
    ("addresses", "admin_token", "model_urls"),
    ("routing",),
    ("serving",),
    ("gateway", "networks", "local_model"),
    ("exporting",),
    ("training",),
    ("server",),
    ("ray",),
    ("commands", "cli"),
)
# What the server never loads, and the only ones that import it.
MAKERS = ("networks", "training", "exporting")
USE_MAKERS = (*MAKERS, "commands")
PACKAGES = {"serving"}  # whose own file imports TensorFlow for all of its folders
FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(file: Path) -> str:
    """protocols.admin for backend/dogsnap/server/protocols/admin.py; a package goes by its folder's name."""
    return (
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        .removesuffix(".__init__")
        .removesuffix("__init__")
    )


def inside(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def floor(module: str) -> int:
    (found,) = [
        n for n, places in enumerate(FLOORS) if any(inside(module, place) for place in places)
    ]
    return found


@cache
def imports(file: Path) -> list[str]:
    """The modules of ours that a file imports, also within its functions."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import, line {node.lineno}"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [
        name.removeprefix("dogsnap.")
        for name in found
        if name.startswith("dogsnap.") and name != "dogsnap.__version__"
    ]


def test_a_module_imports_only_from_its_own_folder_and_from_lower_ones() -> None:
    for file in FILES:
        module = module_of(file)
        for name in imports(file) if module and module not in PACKAGES else ():
            (place,) = [each for each in FLOORS[floor(module)] if inside(module, each)]
            below = floor(name) < floor(module)
            assert below or inside(name, place), f"{file}: {name} stands above it or beside it"


def test_what_trains_and_exports_is_imported_by_commands_and_measurements_only() -> None:
    for file in FILES:
        if any(inside(module_of(file), user) for user in USE_MAKERS):
            continue
        strangers = [name for name in imports(file) if any(inside(name, maker) for maker in MAKERS)]
        assert not strangers, f"{file}: {strangers}"


def test_the_package_never_imports_the_laboratory() -> None:
    pattern = re.compile(r"^\s*(from|import) lab\b", re.M)
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    assert [file for file, text in texts.items() if pattern.search(text)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """At import; what a function imports when it is called cannot lock two modules."""
    known = {module_of(file) for file in FILES}

    def at_import(file: Path) -> set[str]:
        found = set()
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dogsnap"):
                module = node.module.removeprefix("dogsnap").removeprefix(".")
                for alias in node.names:
                    full = f"{module}.{alias.name}".strip(".")
                    found.add(full if full in known else module)
        return found

    left = {module_of(file): at_import(file) for file in FILES}
    while free := [module for module, needed in left.items() if not needed & set(left)]:
        for module in free:
            del left[module]
    assert not left, f"in a circle: {sorted(left)}"


UPPER_FLOORS = r"flask|werkzeug|gunicorn|dogsnap\.(server|networks|training|exporting|commands)"


@pytest.mark.parametrize(
    ("folder", "strangers"),
    [
        ("routing", rf"{UPPER_FLOORS}|tensorflow|grpc|dogsnap\.serving|dogsnap\.gateway"),
        ("serving", rf"{UPPER_FLOORS}|grpc|grpc_health|\w+_pb2_grpc"),
        ("gateway", UPPER_FLOORS),
    ],
)
def test_a_folder_loads_without_what_it_must_not_depend_on_and_imports_it_nowhere(
    folder, strangers
):
    files = [*(PACKAGE / folder).rglob("*.py")]
    imports = re.compile(rf"^\s*(from|import) .*\b({strangers})\b", re.M)  # also within functions
    assert [file.name for file in files if imports.search(file.read_text(encoding="utf-8"))] == []
    modules = ", ".join(
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files
    )
    pattern = rf"({strangers})(\.|$)"
    code = f"import re, sys, {modules}; print([name for name in sys.modules if re.match({pattern!r}, name)])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_file_in_unit_bears_the_name_of_the_module_that_it_tests():
    """With its folder's before it, where that tells which one is meant."""
    modules = [file.relative_to(ROOT / "backend").with_suffix("").parts for file in FILES]
    names = {name for parts in modules for name in (parts[-1], "_".join(parts[-2:]))}
    tested = {file.stem.removeprefix("test_") for file in (ROOT / "tests/unit").glob("test_*.py")}
    assert tested <= names, sorted(tested - names)
