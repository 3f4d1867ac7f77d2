"""Blocks of the documentation."""

from __future__ import annotations

import re
import shlex

from tests.support.homes import ROOT

DOCS = ROOT / "docs/order.md"


def blocks(document: str, language: str = "sh") -> list[str]:
    """The blocks of a page that are in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


def calls(block: str) -> list[list[str]]:
    """The words of each call of `millrace` in a block, as the shell reads them, up to a redirection or an operator."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        if not re.search(r"(^|[\s(;&|/])millrace\s", line):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for begin in (place for place, word in enumerate(words) if word.rpartition("/")[2] == "millrace"):
            ends = (place for place in range(begin, len(words)) if not words[place].strip("();<>|&"))
            found.append(words[begin + 1 : next((end for end in ends if words[end]), len(words))])
    return found
