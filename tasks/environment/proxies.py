"""Proxies of the environment are not used for this machine's own servers."""

from __future__ import annotations

import os

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bypass(*hosts: str) -> None:
    """Add the loopback addresses and `hosts` to `no_proxy`, which every HTTP client reads, in both spellings."""
    given = ",".join(os.environ.get(name, "") for name in ("no_proxy", "NO_PROXY"))
    excepted = dict.fromkeys(host for host in [*given.replace(" ", "").split(","), *LOOPBACK, *hosts] if host)
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(excepted)
