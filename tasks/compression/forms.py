"""What a variant is: a float form of a model, or what methods make of it."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.config.methods import Chain, Method

NONE = Chain()


@dataclass(frozen=True)
class Form:
    """A float form of a model, or what methods make of it."""

    name: str
    """The variant's name."""
    format: str
    methods: Chain = NONE
    """Those that change the model, then one that changes the file."""

    @property
    def on_file(self) -> Method | None:
        """The method that changes the file; None where the file is float."""
        return self.methods[-1] if self.methods and self.methods[-1].on_file else None
