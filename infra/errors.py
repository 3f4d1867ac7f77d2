"""What keeps the stack from working; `flows/commands` turns it into the command's own error."""

from __future__ import annotations


class StackError(Exception):
    """An option, a service or a file (`what`), what was seen (never a secret), the rule, the remedy."""

    def __init__(self, what: str, saw: str, rule: str, remedy: str) -> None:
        super().__init__(f"{what}: {saw}; {rule}; {remedy}")
        self.what, self.saw, self.rule, self.remedy = what, saw, rule, remedy
