"""The methods of compression, and the entries of `compress.methods`.

Each is one class in a module of this folder, all of which are imported here: a file with a class is a method, and what
lists methods (config, reference page, search, errors) asks `Method.kinds`.
"""

from __future__ import annotations

import pkgutil
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from tasks.compression.methods.method import Method
from tasks.config.base import BY_KIND, LISTED

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__, f"{__name__}.")):
    import_module(_module)


def names() -> list[str]:
    """Return the names of all methods; of those that change the file those that need no examples first."""
    kinds = sorted(Method.kinds(), key=lambda kind: (not kind.on_file, "examples" in kind.model_fields))
    return [kind.model_fields["kind"].default for kind in kinds]


if TYPE_CHECKING:  # a type checker knows no types that are computed
    MethodConfig = Method
    MethodName = str
else:
    MethodConfig = Annotated[reduce(or_, Method.kinds()), BY_KIND]
    MethodName = Literal[tuple(names())]

Methods = tuple[
    MethodName | MethodConfig | Annotated[tuple[MethodName | MethodConfig, ...], LISTED, Field(min_length=1)], ...
]
"""The entries of `compress.methods`."""

_ADAPTER: TypeAdapter[Method] = TypeAdapter(MethodConfig)


def settings_needed(kind: str) -> list[str]:
    """Return the settings without which there is no method of a kind."""
    [section] = [each for each in Method.kinds() if each.model_fields["kind"].default == kind]
    return [name for name, field in section.model_fields.items() if field.is_required()]


class Chain(tuple[Method, ...]):
    """Methods in the order in which they are applied."""

    @property
    def name(self) -> str:
        """The name of the variant."""
        return "-".join(method.label for method in self)

    @property
    def on_model(self) -> Chain:
        """Those that change the Keras model; they come first."""
        return Chain(method for method in self if not method.on_file)

    @property
    def parts(self) -> tuple[Chain, ...]:
        """Its beginnings and itself: what makes a model, or the file, of that name."""
        return tuple(Chain(self[:count]) for count in range(1, len(self) + 1))

    @property
    def versions(self) -> dict[str, int]:
        """The code versions of the methods by kind, for the digest of what they make."""
        return {method.kind: method.version for method in self}

    @property
    def libraries(self) -> tuple[str, ...]:
        """The packages that decide what the methods make, besides those of all models and variants."""
        return tuple(library for method in self for library in method.libraries)


def chain_of(entry: MethodName | MethodConfig | tuple[MethodName | MethodConfig, ...]) -> Chain:
    """Return the methods of an entry of `compress.methods`."""
    entries: tuple[Any, ...] = entry if isinstance(entry, tuple) else (entry,)
    return Chain(_ADAPTER.validate_python({"kind": each}) if isinstance(each, str) else each for each in entries)
