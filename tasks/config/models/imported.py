"""A model of the user's, made by a function."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import StringConstraints

from tasks.config.base import NOT_IDENTITY, IsPath, OwnCode
from tasks.config.models.architecture import Architecture, Predicts

Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class ImportedModel(Architecture):
    """A Keras model that a function of yours returns: Sequential, Functional or a class of your own.

    The source of the function's module, and of what it imports from the same folder, is part of the digest, and the
    model in the store has a copy of it.
    """

    noun: ClassVar[str] = "model"
    reads: ClassVar[tuple[str, ...]] = ("image", "table", "tokens")
    own: ClassVar[bool] = True

    kind: Literal["import"] = "import"
    """The architecture."""

    task: Predicts | Literal["tagging", "language_model"] = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    target: OwnCode
    """`package.module:function`, found in the preset's folder without being installed. It is called with `arguments`;
    where it names them, also with `features` (those of the snapshot), `outputs` (how many the model must have) and
    `seed`."""

    arguments: dict[str, Any] = {}
    """Arguments of the function, by name. Mappings reach it in order of their keys; where the order matters, use a
    list."""

    folder: Annotated[Text, NOT_IDENTITY, IsPath()] = "."
    """The folder from which the module is imported; default: the preset's."""
