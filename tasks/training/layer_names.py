"""Layers by patterns of their names."""

from __future__ import annotations

from fnmatch import fnmatchcase


def named(path: str, pattern: str) -> bool:
    """Return whether a variable is of a layer that a pattern names, by its path: `block_0/attention/query/kernel`.

    A pattern names a layer by its path, by that of a layer around it, or by the name of one of them alone.
    """
    *names, _ = path.split("/")
    paths = ["/".join(names[:length]) for length in range(1, len(names) + 1)]
    return any(fnmatchcase(each, pattern) for each in (*paths, *names))
