"""Methods that quantise the weights of a LiteRT file: fewer bits for each, and for some of each activation.

Most are a recipe for ai-edge-quantizer: which operations are quantised, and how.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from tasks.compression.methods.method import CALIBRATED, CHOSEN, FileMethod
from tasks.errors import Failed

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

    from tasks.compression.inputs import MethodInputs
    from tasks.compression.litert import Layer
    from tasks.exporting.formats.litert import LiteRT
    from tasks.models.features import Arrays

Rows = Annotated[int, Field(ge=1, le=100_000)]

EVERY = (".*", "*")
"""Selects all operations that ai-edge-quantizer supports."""

log = logging.getLogger(__name__)


class Float16(FileMethod):
    """Weights as float16, computed as float32 (LiteRT)."""

    version: ClassVar[int] = 2
    size_ratio: ClassVar[float] = 0.6
    made_from: ClassVar[str] = "saved_model"

    kind: Literal["float16"] = "float16"
    """The method."""

    def write(self, inputs: MethodInputs) -> bytes:
        """Convert the float SavedModel anew with weights of float16, tables of embeddings included, and its
        functions."""
        import tensorflow as tf

        from tasks.exporting.formats.litert import SIGNATURE
        from tasks.exporting.formats.saved_model import functions_in

        keys = [SIGNATURE, *functions_in(inputs.saved_model)]
        converter = tf.lite.TFLiteConverter.from_saved_model(str(inputs.saved_model), signature_keys=keys)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
        content: bytes = converter.convert()
        return content


class Int8Dynamic(FileMethod):
    """int8 weights, a scale for each output channel; activations are quantised when a layer is run (Jacob et al.,
    arXiv 1712.05877)."""

    version: ClassVar[int] = 1
    size_ratio: ClassVar[float] = 0.35
    weight_bits: ClassVar[int | None] = 8

    kind: Literal["int8_dynamic"] = "int8_dynamic"
    """The method."""

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file; tables of embeddings are int8 with one scale."""
        return int8(inputs.litert.read_bytes())


class Int8WeightOnly(FileMethod):
    """int8 weights, a scale for each output channel, computed as float32: smaller, not faster."""

    version: ClassVar[int] = 1
    size_ratio: ClassVar[float] = 0.35
    weight_bits: ClassVar[int | None] = 8

    kind: Literal["int8_weight_only"] = "int8_weight_only"
    """The method."""

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file."""
        from tasks.compression.litert import with_int8_tables

        content = with_int8_tables(inputs.litert.read_bytes())
        return quantised(content, lambda work: work.add_weight_only_config(*EVERY, num_bits=8))


class Calibrated(FileMethod):
    """A method that needs examples."""

    examples: Rows = 256
    """Examples of the train split, evenly spaced, that activations are observed on."""


class Int8Static(Calibrated):
    """int8 weights and activations, whose ranges are observed on examples (Jacob et al., arXiv 1712.05877). Not for
    language models, whose activations have outliers."""

    version: ClassVar[int] = 1
    size_ratio: ClassVar[float] = 0.35
    weight_bits: ClassVar[int | None] = 8
    one_signature: ClassVar[bool] = True

    kind: Literal["int8_static"] = "int8_static"
    """The method."""

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file, with ranges over examples of the train split; inputs and outputs stay as they
        are."""
        return quantised(
            inputs.litert.read_bytes(),
            lambda work: work.add_static_config(*EVERY, activation_num_bits=8, weight_num_bits=8),
            inputs.examples(CALIBRATED, self.examples),
        )


class Int8Selective(FileMethod):
    """`int8_dynamic` but for the layers that lose most: each is quantised alone, and the output that it changes most
    stays float, until the loss on validation examples is within the limit."""

    version: ClassVar[int] = 2
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

    @classmethod
    def tried(cls, limit: float | None) -> dict[str, Self]:
        """Return the method with several limits; with smaller ones it leaves more layers float."""
        losses = [0.0] if limit is None else [0.0, limit / 4]
        of_loss = {loss: cls(kind="int8_selective", max_loss=loss) for loss in losses}
        return super().tried(limit) | {f"int8_selective_{loss:g}": method for loss, method in of_loss.items()}

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file but for the layers that need to be float.

        Each layer is quantised alone, and the error of the outputs on validation examples is its sensitivity (Dong et
        al., HAWQ, arXiv 1905.03696). Of the most sensitive layers as few as suffice stay float: until the loss of the
        primary metric is within the limit there.
        """
        from pathlib import Path
        from tempfile import TemporaryDirectory

        import numpy as np

        from tasks.compression.litert import layers_of, with_int8_tables
        from tasks.exporting.formats.litert import LiteRT

        content = with_int8_tables(inputs.litert.read_bytes())
        layers = layers_of(content)
        batches = list(inputs.examples(CHOSEN, self.examples))
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.tflite"

            def opened(but: Sequence[Layer]) -> LiteRT:
                path.write_bytes(int8_but(content, but))
                return LiteRT(path, 1)

            path.write_bytes(content)
            run = LiteRT(path, 1)
            expected = [run(batch) for batch in batches]
            errors = {}
            for layer in layers:
                run = opened([other for other in layers if other is not layer])
                of_batches = [np.mean((run(b) - e) ** 2) for b, e in zip(batches, expected, strict=True)]
                errors[layer] = float(np.mean(of_batches))
            ranked = sorted(layers, key=lambda layer: -errors[layer])
            limit = self.max_loss if self.max_loss is not None else inputs.limit(CHOSEN) / 2
            kept = fewest(len(ranked), lambda count: inputs.lost(CHOSEN, opened(ranked[:count])) <= limit)
        floats = ranked[:kept]
        log.info("%d of %d layers stay float: %s", kept, len(layers), ", ".join(each.said for each in floats) or "none")
        return int8_but(content, floats)


class Int4Dynamic(FileMethod):
    """int4 weights of dense and convolutional layers, int8 embeddings; activations are quantised when a layer is
    run."""

    version: ClassVar[int] = 2
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

    @classmethod
    def tried(cls, limit: float | None) -> dict[str, Self]:
        """Return the method with and without blocks."""
        return super().tried(limit) | {"int4_dynamic_32": cls(kind="int4_dynamic", block=32)}

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file, tables of embeddings to int8.

        Blocks of weights with a scale of their own lose less (Dettmers et al., arXiv 2110.02861). Only dense layers
        have them, those whose inputs divide into blocks; others and convolutions have a scale for each channel.

        Raises:
            Failed: no dense layer divides into blocks.
        """
        from tasks.compression.litert import with_int8_tables

        content = with_int8_tables(inputs.litert.read_bytes())
        blocked = [] if self.block is None else divisible(content, self.block)

        def configure(work: Quantizer) -> None:
            from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName

            work.add_dynamic_config(*EVERY, num_bits=4)
            for layer in blocked:
                granularity = QuantGranularity[f"BLOCKWISE_{self.block}"]
                dense = TFLOperationName.FULLY_CONNECTED
                work.add_dynamic_config(layer.selector, dense, num_bits=4, granularity=granularity)

        return quantised(content, configure)


class Int4WeightOnly(FileMethod):
    """int4 weights, a scale for each output channel, computed as float32: smaller, not faster."""

    version: ClassVar[int] = 1
    size_ratio: ClassVar[float] = 0.25
    weight_bits: ClassVar[int | None] = 4

    kind: Literal["int4_weight_only"] = "int4_weight_only"
    """The method."""

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file; tables of embeddings are int8."""
        from tasks.compression.litert import with_int8_tables

        content = with_int8_tables(inputs.litert.read_bytes())
        return quantised(content, lambda work: work.add_weight_only_config(*EVERY, num_bits=4))


class Gptq(Calibrated):
    """int4 weights of dense layers, rounded one after the other so that each makes up for the error of those before
    (Frantar et al., arXiv 2210.17323)."""

    version: ClassVar[int] = 1
    size_ratio: ClassVar[float] = 0.25
    weight_bits: ClassVar[int | None] = 4
    one_signature: ClassVar[bool] = True

    kind: Literal["gptq"] = "gptq"
    """The method."""

    def write(self, inputs: MethodInputs) -> bytes:
        """Quantise the float file: dense layers by GPTQ, other layers to the nearest.

        By ai-edge-quantizer on the LiteRT file. That of Keras 3.15.1 observes no example, and rounds to the nearest
        (docs/decisions.md).
        """
        from tasks.compression.litert import with_int8_tables

        def configure(work: Quantizer) -> None:
            from ai_edge_quantizer.algorithm_manager import AlgorithmName
            from ai_edge_quantizer.qtyping import TFLOperationName

            work.add_dynamic_config(*EVERY, num_bits=4)
            dense = TFLOperationName.FULLY_CONNECTED
            work.add_dynamic_config("", dense, num_bits=4, algorithm_key=AlgorithmName.GPTQ)

        content = with_int8_tables(inputs.litert.read_bytes())
        return quantised(content, configure, inputs.examples(CALIBRATED, self.examples))


def quantised(content: bytes, configure: Callable[[Quantizer], None], examples: Iterable[Arrays] = ()) -> bytes:
    """Return a float `.tflite` file quantised; inputs and outputs keep their dtypes.

    Args:
        configure: adds the recipe: which operations are quantised, and how.
        examples: batches of inputs by name, on which activations are observed where the recipe needs it.
    """
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.qtyping import TFLOperationName
    from ai_edge_quantizer.quantizer import Quantizer

    from tasks.exporting.formats.litert import SIGNATURE

    work = Quantizer(bytearray(content))
    configure(work)
    for end in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
        work.update_quantization_recipe("", end, algorithm_key=AlgorithmName.NO_QUANTIZE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Input model is already partially quantized")
        warnings.filterwarnings("ignore", message="Warning: Enabling `experimental_preserve_all_tensors`")
        observed = work.calibrate({SIGNATURE: list(examples)}, num_threads=1) if work.need_calibration else None
        return bytes(work.quantize(observed).quantized_model)


def int8(content: bytes) -> bytes:
    """Return a float `.tflite` file with int8 weights and tables of embeddings."""
    from tasks.compression.litert import with_int8_tables

    return quantised(with_int8_tables(content), lambda work: work.add_dynamic_config(*EVERY, num_bits=8))


def int8_but(content: bytes, but: Sequence[Layer]) -> bytes:
    """Return a `.tflite` file whose tables are int8 already with int8 weights in all layers but some."""

    def configure(work: Quantizer) -> None:
        from ai_edge_quantizer.algorithm_manager import AlgorithmName
        from ai_edge_quantizer.qtyping import TFLOperationName

        work.add_dynamic_config(*EVERY, num_bits=8)
        for layer in but:
            work.update_quantization_recipe(
                layer.selector, TFLOperationName.ALL_SUPPORTED, algorithm_key=AlgorithmName.NO_QUANTIZE
            )

    return quantised(content, configure)


def fewest(most: int, suffices: Callable[[int], bool]) -> int:
    """Return the smallest number from 0 to `most` that suffices, as more always do; `most` itself is not tried."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return high


def divisible(content: bytes, block: int) -> list[Layer]:
    """Return the dense layers whose inputs divide into blocks; raises `Failed` where there are none."""
    from tasks.compression.litert import layers_of

    dense = [layer for layer in layers_of(content) if layer.operation == "FULLY_CONNECTED"]
    if chosen := [layer for layer in dense if layer.shape[-1] % block == 0]:
        return chosen
    of = ", ".join(f"{layer.said} {layer.shape[-1]}" for layer in dense) or "no dense layer"
    rule = f"blocks need a dense layer whose inputs divide by {block}, and there are: {of}"
    raise Failed("compress.methods", f"int4_dynamic, block {block}", rule, "use a smaller block, or leave it out")
