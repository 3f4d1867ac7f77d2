"""Methods of compression: those that change the numbers in a LiteRT file, and the entries of `compress.methods`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter

from tasks.config.base import BY_KIND, LISTED
from tasks.config.method import Method
from tasks.config.model_methods import Cluster, Distill, LowRank, Prune, PruneStructured, Qat

Rows = Annotated[int, Field(ge=1, le=100_000)]


class Float16(Method):
    """Weights as float16, computed as float32 (LiteRT)."""

    size_ratio: ClassVar[float] = 0.6
    made_from: ClassVar[str] = "saved_model"

    kind: Literal["float16"] = "float16"
    """The method."""


class Int8Dynamic(Method):
    """int8 weights, a scale for each output channel; activations are quantised when a layer is run (Jacob et al.,
    arXiv 1712.05877)."""

    size_ratio: ClassVar[float] = 0.35
    weight_bits: ClassVar[int | None] = 8

    kind: Literal["int8_dynamic"] = "int8_dynamic"
    """The method."""


class Int8WeightOnly(Method):
    """int8 weights, a scale for each output channel, computed as float32: smaller, not faster."""

    size_ratio: ClassVar[float] = 0.35
    weight_bits: ClassVar[int | None] = 8

    kind: Literal["int8_weight_only"] = "int8_weight_only"
    """The method."""


class Int4Dynamic(Method):
    """int4 weights of dense and convolutional layers, int8 embeddings; activations are quantised when a layer is
    run."""

    size_ratio: ClassVar[float] = 0.25
    weight_bits: ClassVar[int | None] = 4

    kind: Literal["int4_dynamic"] = "int4_dynamic"
    """The method."""
    block: Literal[32, 64, 128, 256] | None = None
    """Weights of dense layers that share a scale; default: those of an output channel."""

    @property
    def by_channel(self) -> bool:
        """Whether the weights of an output channel share a scale."""
        return self.block is None

    @property
    def label(self) -> str:
        """The name of the method with that of its blocks."""
        return self.kind if self.block is None else f"{self.kind}_{self.block}"


class Int4WeightOnly(Method):
    """int4 weights, a scale for each output channel, computed as float32: smaller, not faster."""

    size_ratio: ClassVar[float] = 0.25
    weight_bits: ClassVar[int | None] = 4

    kind: Literal["int4_weight_only"] = "int4_weight_only"
    """The method."""


class Calibrated(Method):
    """A method that needs examples."""

    examples: Rows = 256
    """Examples of the train split, evenly spaced, that activations are observed on."""


class Int8Static(Calibrated):
    """int8 weights and activations, whose ranges are observed on examples (Jacob et al., arXiv 1712.05877). Not for
    language models, whose activations have outliers."""

    size_ratio: ClassVar[float] = 0.35
    weight_bits: ClassVar[int | None] = 8
    one_signature: ClassVar[bool] = True

    kind: Literal["int8_static"] = "int8_static"
    """The method."""


class Int8Selective(Method):
    """`int8_dynamic` but for the layers that lose most: each is quantised alone, and the output that it changes most
    stays float, until the loss on validation examples is within the limit."""

    size_ratio: ClassVar[float] = 0.7
    weight_bits: ClassVar[int | None] = 8
    one_signature: ClassVar[bool] = True
    reads_limit: ClassVar[bool] = True

    kind: Literal["int8_selective"] = "int8_selective"
    """The method."""
    max_loss: Annotated[float, Field(ge=0)] | None = None
    """Largest loss of the primary metric on the validation split; default: half of what the quality gate accepts."""
    examples: Rows = 1024
    """Examples of the validation split, at most."""

    @property
    def label(self) -> str:
        """The name of the method with that of its limit."""
        return self.kind if self.max_loss is None else f"{self.kind}_{self.max_loss:g}".replace(".", "_")


class Gptq(Calibrated):
    """int4 weights of dense layers, rounded one after the other so that each makes up for the error of those before
    (Frantar et al., arXiv 2210.17323)."""

    size_ratio: ClassVar[float] = 0.25
    weight_bits: ClassVar[int | None] = 4
    one_signature: ClassVar[bool] = True

    kind: Literal["gptq"] = "gptq"
    """The method."""


OnModel = Prune | Cluster | Qat | Distill | LowRank | PruneStructured
OnFile = Float16 | Int8Dynamic | Int8WeightOnly | Int8Static | Int8Selective | Int4Dynamic | Int4WeightOnly | Gptq
MethodConfig = Annotated[OnFile | OnModel, BY_KIND]
MethodName = Literal[
    "float16",
    "int8_dynamic",
    "int8_weight_only",
    "int4_dynamic",
    "int4_weight_only",
    "int8_static",
    "int8_selective",
    "gptq",
    "prune",
    "cluster",
    "qat",
    "distill",
    "low_rank",
    "prune_structured",
]

Methods = tuple[
    MethodName | MethodConfig | Annotated[tuple[MethodName | MethodConfig, ...], LISTED, Field(min_length=1)], ...
]
"""The entries of `compress.methods`."""

_ADAPTER: TypeAdapter[Method] = TypeAdapter(MethodConfig)


def settings_needed(kind: str) -> list[str]:
    """Return the settings without which there is no method of a kind."""
    [section] = [each for each in get_args(OnModel | OnFile) if each.model_fields["kind"].default == kind]
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


def chain_of(entry: MethodName | MethodConfig | tuple[MethodName | MethodConfig, ...]) -> Chain:
    """Return the methods of an entry of `compress.methods`."""
    entries = entry if isinstance(entry, tuple) else (entry,)
    return Chain(_ADAPTER.validate_python({"kind": each}) if isinstance(each, str) else each for each in entries)
