"""Fine-tuning: the weights that a training begins with, low-rank adaptation, and rates that follow the batch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, PATTERNS, Conflict, IsPath, Section
from tasks.config.kinds import BY_KIND
from tasks.config.optimizer import Pattern

Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]

SAVED = r"(\.keras|\.weights\.h5)$"
PATTERNS[SAVED] = "must end in .keras or .weights.h5"


class Init(Section):
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
    def place(self) -> tuple[str, str] | None:
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


class FileInit(Init):
    """A file that Keras saved: a model `*.keras`, or weights `*.weights.h5` of exactly this model."""

    kind: Literal["file"] = "file"
    """Where the weights are from."""
    path: Annotated[Text, NOT_IDENTITY, IsPath(), StringConstraints(pattern=SAVED)]
    """The file; its content is part of the digest."""

    @property
    def place(self) -> tuple[str, str] | None:
        """The file."""
        return "path", self.path

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
    def place(self) -> tuple[str, str] | None:
        """The folder, or the name of a preset."""
        return "preset", self.preset

    @property
    def may_be_absent(self) -> bool:
        """Whether the preset may be downloaded."""
        return self.download


InitConfig = Annotated[ChampionInit | ModelInit | FileInit | KerasHubInit, BY_KIND]


class Lora(Section):
    """Low-rank adaptation (Hu et al., arXiv 2106.09685): of each layer named, the kernel W stays, and the product of
    two small matrices is trained and added: W + alpha / rank x A B. All other layers are frozen but those of `also`.
    At the end the sum becomes the kernel: the model is the one of `model`, without further layers."""

    rank: Annotated[int, Field(ge=1, le=1024)] = 8
    """Columns of A and rows of B."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """Scale of the product; default: the rank."""
    targets: Annotated[tuple[Pattern, ...], LISTED, Field(min_length=1)] = ("*",)
    """Names of Dense, EinsumDense and Embedding layers; `*` is any text."""
    also: Annotated[tuple[Pattern, ...], LISTED] = ()
    """Names of layers that are trained whole, such as a new output layer."""


class RateScaling(Section):
    """Scales the peak learning rate with the batch: it is then the one that suits a batch of `batch_size`."""

    kind: Literal["linear", "sqrt"] = "linear"
    """`linear`: in proportion to the batch (Goyal et al., arXiv 1706.02677); `sqrt`: to its root (Krizhevsky, arXiv
    1404.5997), usual with Adam."""
    batch_size: Annotated[int, Field(ge=1, le=2**24)]
    """The batch that `train.learning_rate` was chosen for."""

    def factor(self, batch_size: int) -> float:
        """Return the factor of the learning rate for a batch."""
        ratio = batch_size / self.batch_size
        return float(ratio if self.kind == "linear" else ratio**0.5)
