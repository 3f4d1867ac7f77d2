"""A commit as a house: its Python files, what they import, the texts in them that name code, and walks through them."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("flows", "tasks", "infra")
OTHERS = ("pyproject.toml", "docs/reference.md")
"""Files that are read besides those of the packages."""

CODE = re.compile(rf"((?:{'|'.join(PACKAGES)})(?:\.\w+)*)(\.{{}})?(?::([\w.{{}}]+))?")
"""A text that may name code: a module, `.{}` for one of a package's, and `:` before what is in it."""

STEP = re.compile(r"(\^|~\S+ )?(\S+)")
"""A station of a walk with its mark."""

Graph = dict[str, set[str]]


@dataclass(frozen=True)
class House:
    """The files of a commit that are counted, by path."""

    name: str
    files: Mapping[str, str]

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The Python files, parsed, in order of path."""
        return {path: ast.parse(text, path) for path, text in sorted(self.files.items()) if path.endswith(".py")}

    @cached_property
    def modules(self) -> dict[str, str]:
        """The files by the dotted path of their module."""
        return {module_of(path): path for path in self.trees}

    @cached_property
    def imports(self) -> Graph:
        """By file, the files that it imports: at its top, in functions and under TYPE_CHECKING."""
        return {path: set(self._imported(path)) - {path} for path in self.trees}

    def _imported(self, path: str) -> Iterator[str]:
        package = module_of(path).split(".")[: None if path.endswith("/__init__.py") else -1]
        for node in ast.walk(self.trees[path]):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                names = [f"{base}.{alias.name}" for alias in node.names]
                names = [name if name in self.modules else base for name in names]
            yield from (self.modules[name] for name in names if name in self.modules)

    def texts(self, path: str, node: ast.AST | None = None) -> list[tuple[str, str]]:
        """Return the texts that name code in a file, or in a node of it: the module, or `package.` of any of a package,
        and what is named in it."""
        known = {"__name__": module_of(path)}
        for each in self.trees[path].body:
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant):
                known |= dict.fromkeys(assigned(each), str(each.value.value))
        texts = strings(node or self.trees[path], known)
        return [code for text in texts if (code := self._code(text)) is not None]

    def _code(self, text: str) -> tuple[str, str] | None:
        """Return the code that a text names, if it does."""
        match = CODE.fullmatch(text)
        if match is None or text in PACKAGES:
            return None
        module, hole, part = match.groups(default="")
        if hole:
            package = f"{module}."
            return (package, part) if any(known.startswith(package) for known in self.modules) else None
        if module in self.modules:
            return module, part
        above, _, name = module.rpartition(".")
        in_module = above in self.modules and found(self.trees[self.modules[above]], [name]) is not None
        return (above, name) if in_module and not part else None

    def names(self, path: str, node: ast.AST, module: str, name: str) -> bool:
        """Return whether a node of a file names what has this name in a module: as a name, an attribute or a text."""
        imports = (each for each in ast.walk(self.trees[path]) if isinstance(each, ast.Import | ast.ImportFrom))
        aliases = {alias.asname: alias.name for each in imports for alias in each.names if alias.asname}
        for each in ast.walk(node):
            own = each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else None
            if own is not None and name in (own, aliases.get(own)):
                return True
        for said, part in self.texts(path, node):
            if said == module and (not part or "{" in part or part == name):
                return True
            if said.endswith(".") and module.startswith(said):
                return True
        return False


def read(commit: str | None, root: Path) -> House:
    """Read the files of a commit, or without one those of the working tree that git does not ignore."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", "-C", str(root), *arguments], check=True, stdout=subprocess.PIPE).stdout

    if commit is None:
        listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
        paths = [path for path in sorted(set(listed)) if _is_read(path) and (root / path).is_file()]
        return House("working tree", {path: (root / path).read_text(encoding="utf-8") for path in paths})
    name = git("rev-parse", "--short", f"{commit}^{{commit}}").decode().strip()
    with tarfile.open(fileobj=io.BytesIO(git("archive", name))) as archive:
        members = [(member.name, archive.extractfile(member)) for member in archive if _is_read(member.name)]
        return House(name, {path: file.read().decode() for path, file in members if file is not None})


def _is_read(path: str) -> bool:
    return path in OTHERS or (path.partition("/")[0] in PACKAGES and path.endswith(".py"))


def module_of(path: str) -> str:
    """Return the dotted path of a file's module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def assigned(node: ast.AST) -> list[str]:
    """Return the names that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def found(scope: ast.AST, names: Sequence[str]) -> ast.stmt | None:
    """Return the function, class or assignment of a dotted name in a module, class or function."""
    for node in getattr(scope, "body", ()):
        if getattr(node, "name", None) == names[0] or names[0] in assigned(node):
            return node if len(names) == 1 else found(node, names[1:])
    return None


def strings(node: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts in a node that are no docstrings, with `{}` for what f-strings compute, but for known names."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts.append(known.get(getattr(part.value, "id", ""), "{}"))
                yield from strings(part.value, known)
            else:
                parts += strings(part, known)
        yield "".join(parts)
    elif not is_docstring(node):
        for child in ast.iter_child_nodes(node):
            yield from strings(child, known)


def is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a text that stands alone as a statement."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach one another, each sorted; a node alone is none."""
    reach = {node: _reached(graph, node) for node in graph}
    groups = {tuple(sorted(other for other in reach[node] if node in reach[other])) for node in graph}
    return sorted([*group] for group in groups if len(group) > 1)


def _reached(graph: Graph, start: str) -> set[str]:
    """Return what is reached from a node by one edge or more."""
    seen, left = set[str](), [start]
    while left:
        new = graph[left.pop()] - seen
        seen |= new
        left += new
    return seen


def longest_chain(graph: Graph) -> list[str]:
    """Return the longest chain of a graph in which the nodes of a circle are one."""
    label = {node: node for node in graph} | {node: " + ".join(group) for group in circles(graph) for node in group}
    below: Graph = {name: set() for name in label.values()}
    for node, others in graph.items():
        below[label[node]] |= {label[other] for other in others} - {label[node]}
    chains: dict[str, list[str]] = {}

    def chain(name: str) -> list[str]:
        if name not in chains:
            chains[name] = [name, *max((chain(other) for other in sorted(below[name])), key=len, default=[])]
        return chains[name]

    return max((chain(name) for name in sorted(below)), key=len, default=[])


class Station(NamedTuple):
    """A function, class, method or table on a walk."""

    path: str
    name: str
    node: ast.stmt

    def lines(self, house: House) -> list[tuple[int, str]]:
        """Return its lines with their numbers."""
        numbers = range(self.node.lineno, (self.node.end_lineno or self.node.lineno) + 1)
        return [*zip(numbers, house.files[self.path].splitlines()[numbers[0] - 1 : numbers[-1]], strict=True)]


class Broken(Exception):
    """A walk that does not go on; the message says where and why."""


def walk(house: House, route: str) -> tuple[list[str], str]:
    """Return the distinct files of a route (see `tests.house.WALKS`) in order, and the line at its end.

    Raises:
        Broken: it does not hold in this house.
    """
    stations: list[Station] = []
    *between, end = filter(None, map(str.strip, route.splitlines()))
    for line in between:
        path, _, steps = line.partition(":")
        for step in map(str.strip, steps.split(">")):
            mark, name = STEP.fullmatch(step).groups(default="")  # type: ignore[union-attr]
            node = found(house.trees[path], name.split(".")) if path in house.trees else None
            if node is None:
                raise Broken(f"{path}: there is no {name}")
            station = Station(path, name, node)
            if stations:
                _check_step(house, stations, station, mark.strip())
            stations.append(station)
    wanted, last = end.removeprefix("=").strip(), stations[-1]
    for number, text in last.lines(house):
        if wanted in text:
            return list(dict.fromkeys(station.path for station in stations)), f"{last.path}:{number}: {text.strip()}"
    raise Broken(f"{last.path}: {last.name} has no {wanted}")


def _check_step(house: House, stations: Sequence[Station], new: Station, mark: str) -> None:
    """Raise `Broken` where a walk does not go on from its last station to a new one."""
    last = stations[-1]
    if mark.startswith("~"):
        for station in (last, new):
            if not any(mark[1:] in text for _, text in station.lines(house)):
                raise Broken(f"{station.path}: {station.name} does not speak of {mark[1:]}")
        return
    if mark == "^" and new[:2] in {station[:2] for station in stations}:
        return
    caller, called = (new, last) if mark == "^" else (last, new)
    *_, owner, name = ["", *called.name.split(".")]
    name = owner if name.startswith("__") else name  # `Step(...)` is `Step.__init__`, `step(...)` is `Step.__call__`
    if not house.names(caller.path, caller.node, module_of(called.path), name):
        raise Broken(f"{caller.path}: {caller.name} does not name {name}, of {called.path}")
