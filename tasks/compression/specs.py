"""What a variant is: a float form of a model, or what methods make of it."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.compression import VARIANT_LIBRARIES
from tasks.compression.methods.method import Chain, FileMethod
from tasks.exporting import FORMATS, LITERT

NONE = Chain()


@dataclass(frozen=True)
class VariantSpec:
    """A float form of a model, or what methods make of it."""

    name: str
    """The variant's name: of a float form its format, of any other the names of its methods."""
    methods: Chain = NONE
    """Those that change the model, then one that changes the file."""

    @property
    def format(self) -> str:
        """The format of its file."""
        return format_name(self.name)

    @property
    def on_file(self) -> FileMethod | None:
        """The method that changes the file; None where the file is float."""
        last = self.methods[-1] if self.methods else None
        return last if isinstance(last, FileMethod) else None

    @property
    def parent(self) -> VariantSpec | None:
        """The float form of the same model that it is made from; None where it is made from the Keras model.

        Of a model that methods have changed there is one float form, in LiteRT.
        """
        made_from = FORMATS[self.format].parent if self.on_file is None else self.on_file.made_from
        if self.methods.on_model:
            return compressed(self.methods.on_model) if self.on_file is not None and made_from == LITERT else None
        return None if made_from is None else VariantSpec(made_from)


FLOAT = VariantSpec(LITERT)
"""The float file that compressed ones are compared with."""


def compressed(methods: Chain) -> VariantSpec:
    """Return the form that methods make."""
    return VariantSpec(methods.name, methods)


def format_name(variant: str) -> str:
    """Return the format of a variant by its name."""
    return variant if variant in FORMATS else LITERT


def libraries_of(variant: str) -> tuple[str, ...]:
    """Return the packages whose versions decide a variant's bytes and answers, by its name."""
    return (*VARIANT_LIBRARIES, *FORMATS[format_name(variant)].libraries)
