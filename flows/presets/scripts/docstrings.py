"""Write the table of the preset `docstrings`: the docstrings of Python's standard library, and the package of each.

python flows/presets/scripts/docstrings.py flows/presets/data/docstrings.jsonl
"""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "asyncio", "concurrent", "ctypes", "distutils", "email", "http", "idlelib", "importlib", "logging",
    "multiprocessing", "tkinter", "unittest", "urllib", "xml",
)  # fmt: skip


def rows(package: Path) -> Iterator[dict[str, str]]:
    """Yield key, text, module and package of every docstring below a package, without tests."""
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package.parent).with_suffix("").as_posix()
        if "test" in module:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if text := ast.get_docstring(node):
                key = f"{module}:{node.lineno}"
                yield {"key": key, "text": f"{node.name}: {text}", "module": module, "package": package.name}


def main(target: Path) -> None:
    """Write the file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    library = Path(sysconfig.get_path("stdlib"))
    with open(target, "w", encoding="utf-8") as file:
        for package in PACKAGES:
            for row in rows(library / package):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
