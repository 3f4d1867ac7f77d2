"""The dotted flags of `millrace run`, `why` and `backfill`: `--a.b VALUE` or `--a.b=VALUE`."""

from __future__ import annotations

from tasks.errors import Refused

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Typer's settings for a command with dotted flags."""


def read_flags(words: list[str]) -> list[tuple[str, str]]:
    """Return key and value of each dotted flag."""
    rest = list(words)
    flags: list[tuple[str, str]] = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise Refused(
                word,
                "unexpected argument",
                "FLOW and PRESET are followed by flags: --dotted.key VALUE",
                "quote a value with spaces",
            )
        dotted, equals, value = word[2:].partition("=")
        if not equals:
            if not rest or (rest[0].startswith("--") and not rest[0][2:3].isdigit()):
                raise Refused(word, "no value", "a flag has a value", f"use {word} VALUE")
            value = rest.pop(0)
        if dotted in dict(flags):
            rule = "a flag may be used once"
            raise Refused(f"--{dotted}", f"{dict(flags)[dotted]} and {value}", rule, "remove one")
        flags.append((dotted, value))
    return flags
