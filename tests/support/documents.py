"""Blocks of the documentation."""

from __future__ import annotations

import re

from tests.support.homes import ROOT

DOCS = ROOT / "docs/order.md"


def blocks(document: str, language: str = "sh") -> list[str]:
    """The blocks of a page that are in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
