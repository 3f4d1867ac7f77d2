"""The weights that a training begins with, a kind each: the section `train.init`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import StringConstraints, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, PATTERNS, Conflict, IsPath
from tasks.config.kinds import Kind, any_of
from tasks.errors import Failed, Refused
from tasks.training.optimizers import Pattern

if TYPE_CHECKING:
    import keras

Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]

SAVED = r"(\.keras|\.weights\.h5)$"
PATTERNS[SAVED] = "must end in .keras or .weights.h5"

FIELD = "train.init"

SEED = "seed_generator_state"
"""The end of the path of a dropout's state, which is no weight."""

Known = dict[str, NDArray[Any]]
"""Weights by the paths of their variables."""


class Init(Kind):
    """What all sources of initial weights have. A variable takes the weights of the one with its path and shape."""

    libraries: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions decide the weights."""

    new: Annotated[tuple[Pattern, ...], LISTED] = ()
    """Names of layers that begin with new weights: usually an output layer for other classes; `*` is any text."""
    rename: dict[str, str] = {}
    """Beginnings of paths in this model, and those that they have in the other: `{encoder/: backbone/}`. Of several
    the longest one counts."""

    @property
    def artifact(self) -> str | None:
        """The model in the store whose weights are taken; None for another source."""
        return None

    @property
    def origin(self) -> tuple[str, str] | None:
        """The setting that names a file or folder with the weights, and its value; None for another source."""
        return None

    @property
    def is_path(self) -> bool:
        """Whether the place is a path, and not the name of something that is downloaded."""
        return True

    @property
    def may_be_absent(self) -> bool:
        """Whether the place may be one that is downloaded."""
        return False

    def weights(self, model: keras.Model, stored: Path | None) -> Known:
        """Return the weights of the source for this model.

        Args:
            stored: the folder of the model in the store, where it is the source.

        Raises:
            Failed: they cannot be read.
        """
        raise NotImplementedError


class ChampionInit(Init):
    """The model that the present champion was made from, when the run begins."""

    kind: Literal["champion"] = "champion"
    """Where the weights are from."""

    def of_model(self, digest: str) -> ModelInit:
        """Return the same with a model in the store."""
        return ModelInit(model=digest, new=self.new, rename=self.rename)


class ModelInit(Init):
    """A model in the store."""

    kind: Literal["model"] = "model"
    """Where the weights are from."""
    model: Annotated[Text, NOT_IDENTITY]
    """Its digest, or an unambiguous beginning of it; see `millrace list model`. The digest is a parent of the model."""

    @property
    def artifact(self) -> str | None:
        """The model in the store whose weights are taken."""
        return self.model

    def weights(self, model: keras.Model, stored: Path | None) -> Known:
        """Return the weights of the model in the store."""
        from tasks.models import keras_file

        assert stored is not None
        return by_path(keras_file.load(stored))


class FileInit(Init):
    """A file that Keras saved: a model `*.keras`, or weights `*.weights.h5` of exactly this model."""

    kind: Literal["file"] = "file"
    """Where the weights are from."""
    path: Annotated[Text, NOT_IDENTITY, IsPath(), StringConstraints(pattern=SAVED)]
    """The file; its content is part of the digest."""

    @property
    def origin(self) -> tuple[str, str] | None:
        """The file."""
        return "path", self.path

    def weights(self, model: keras.Model, stored: Path | None) -> Known:
        """Return the weights of the file."""
        from tasks.models import keras_archive

        path, field = Path(self.path), f"{FIELD}.path"
        try:
            if path.suffix == ".h5":
                keras_archive.load_weights(model, path, field, keras_archive.size_of(model))
                return by_path(model)
            return by_path(keras_archive.load(path, field))
        except Refused as refused:  # of a training that has begun
            raise Failed(refused.field, refused.saw, refused.rule, refused.remedy) from None

    @model_validator(mode="after")
    def weights_have_no_names(self) -> FileInit:
        for name in ("new", "rename"):
            if (value := getattr(self, name)) and self.path.endswith(".h5"):
                rule = "is ignored: a file of weights has no layer names, and must fit as a whole"
                raise Conflict(name, value, rule, "leave it out, or use a .keras file")
        return self


class KerasHubInit(Init):
    """A backbone of KerasHub."""

    libraries: ClassVar[tuple[str, ...]] = ("keras-hub",)

    kind: Literal["keras_hub"] = "keras_hub"
    """Where the weights are from."""
    preset: Annotated[Text, IsPath(has="/")]
    """A folder with a preset, `./bert`, whose content is part of the digest; with `download` the name of a preset:
    `bert_tiny_en_uncased`, `hf://...`."""
    download: Annotated[bool, NOT_IDENTITY] = False
    """Whether a preset of this name may be downloaded."""

    @property
    def is_path(self) -> bool:
        """Whether the preset is a folder, and not a name or an address."""
        return "/" in self.preset and "://" not in self.preset

    def decides(self, name: str) -> bool:
        """Return whether a field is part of the digest: of a folder its files are, wherever it is."""
        return super().decides(name) and not (name == "preset" and self.is_path)

    @model_validator(mode="after")
    def a_folder_is_not_downloaded(self) -> KerasHubInit:
        if self.download and self.is_path:
            raise Conflict("download", True, f"is ignored: {self.preset} is a folder", "leave it out")
        return self

    @property
    def origin(self) -> tuple[str, str] | None:
        """The folder, or the name of a preset."""
        return "preset", self.preset

    @property
    def may_be_absent(self) -> bool:
        """Whether the preset may be downloaded."""
        return self.download

    def weights(self, model: keras.Model, stored: Path | None) -> Known:
        """Return the weights of the backbone."""
        try:
            import keras_hub
        except ImportError as error:
            remedy = "install the extra hub: pip install 'millrace[hub]'"
            raise Failed(f"{FIELD}.kind", self.kind, "needs the package keras-hub", remedy) from error
        try:
            return by_path(keras_hub.models.Backbone.from_preset(self.preset))
        except Exception as error:
            saw = f"{self.preset}: {(str(error).strip() or type(error).__name__).splitlines()[0][:200]}"
            raise Failed(f"{FIELD}.preset", saw, "its weights are read by Keras", "use one that fits") from error


def by_path(model: keras.Model) -> Known:
    """Return the weights of a model by the paths of their variables."""
    return {variable.path: np.asarray(variable) for variable in model.variables if not variable.path.endswith(SEED)}


if TYPE_CHECKING:
    InitConfig = Init
else:
    InitConfig = any_of(Init.kinds().values())
