"""Convolutional networks: of images (VGG's pairs of filters, residual blocks), and over time.

- VGG (Simonyan and Zisserman, arXiv 1409.1556): pairs of 3 x 3 filters.
- Over time (LeCun and Bengio, 1995): blocks of two convolutions and a pooling, as in the networks for sound events of
  Kong et al. (arXiv 1912.10211), and the mean and the maximum over time.
- Residual (He et al., arXiv 1512.03385) with the order of layers of its successor (arXiv 1603.05027). Group
  normalisation (Wu and He, arXiv 1803.08494) in place of batch normalisation, whose moving averages and statistics
  would depend on how a batch is divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LATER, LISTED, Conflict
from tasks.config.task import ExampleTask
from tasks.errors import Failed
from tasks.models.architecture import Dropout, OwnArchitecture, Units
from tasks.models.features import LOGITS, single_input
from tasks.models.prunable import Group, Prunable

if TYPE_CHECKING:
    import keras


class ConvnetModel(OwnArchitecture, place=0):
    """A small convolutional classifier: blocks of two 3 x 3 convolutions and a pooling, then a dense head."""

    noun: ClassVar[str] = "convolutional network"
    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["convnet"] = "convnet"
    """The architecture."""

    task: ExampleTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    filters: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=8)] = (32, 64)
    """Filters of each block; every block halves height and width."""

    dense: Units = 128
    """Units of the hidden dense layer."""

    dropout: Dropout = 0.3
    """Share of the dense layer's inputs dropped while training."""

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where an image cannot be halved by every block."""
        most = min(height, width).bit_length() - 1
        if len(self.filters) > most:
            size = f"{height} x {width} pixels"
            rule = f"every block halves the image, and {size} have room for {most}"
            remedy = f"give at most {most} values" if most else "use model.kind mlp"
            raise Conflict("filters", list(self.filters), rule, f"{remedy}, or make the image larger")

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: images [B, height, width, channels] to logits [B, classes] or outputs [B, targets].

        Every block halves height and width.

        Raises:
            Failed: the input is not an image, or too small for that many blocks.
        """
        import keras

        from tasks.models.layers import conv, dense, dropout, head, input_layer

        feature = self.single_image(features)
        inputs, x = input_layer(feature)
        for block, filters in enumerate(self.filters):
            x = conv(filters, f"block{block}_conv0", seed)(x)
            x = conv(filters, f"block{block}_conv1", seed)(x)
            x = keras.layers.MaxPooling2D(name=f"block{block}_pool")(x)
        x = keras.layers.Flatten(name="flatten")(x)
        x = dropout(self.dropout, "dropout", seed)(x)
        x = dense(self.dense, "dense", seed)(x)
        return keras.Model(inputs, head(x, features, self.task, seed), name="convnet")

    def prunable(self) -> Prunable:
        """Return the filters of the convolutions, of which both of a block have as many, and the hidden dense layer."""
        return filters_and_dense(self)


class Convnet1dModel(OwnArchitecture, place=7):
    """A convolutional network over time: of a sound's spectrogram, or of a series of numbers."""

    noun: ClassVar[str] = "convolutional network over time"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["convnet1d"] = "convnet1d"
    """The architecture."""

    task: ExampleTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    filters: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=12)] = (64, 128)
    """Filters of each block; every block halves the number of steps."""

    window: Annotated[int, Field(ge=1, le=1024)] = 5
    """Steps that a filter reads."""

    dense: Units = 128
    """Units of the hidden dense layer."""

    dropout: Dropout = 0.2
    """Share of the dense layer's inputs dropped while training."""

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: a series [B, steps] or [B, steps, channels] to logits [B, classes] or outputs [B, targets].

        Raises:
            Failed: the input has no or several axes of time, or too few steps for that many blocks.
        """
        import keras

        from tasks.models.layers import conv1d, dense, dropout, head, input_layer

        feature = single_input(features)
        if feature.sizes or len(feature.shape) not in (1, 2):
            saw = f"convnet1d on {feature.name} of shape {list(feature.shape)}"
            raise Failed("model.kind", saw, "it reads a sound or a series of numbers", "use kind: mlp")
        most = feature.shape[0].bit_length() - 1
        if len(self.filters) > most:
            rule = f"every block halves the {feature.shape[0]} steps, which have room for {most}"
            raise Failed("model.filters", list(self.filters), rule, f"give at most {most} values")
        inputs, x = input_layer(feature)
        if len(feature.shape) == 1:
            x = keras.layers.Reshape((feature.shape[0], 1), name="series")(x)
        for block, filters in enumerate(self.filters):
            for number in range(2):
                x = conv1d(filters, self.window, f"block{block}_conv{number}", seed)(x)
            x = keras.layers.MaxPooling1D(name=f"block{block}_pool")(x)
        pools = (keras.layers.GlobalAveragePooling1D(name="mean"), keras.layers.GlobalMaxPooling1D(name="maximum"))
        x = keras.layers.Concatenate(name="over_time")([pool(x) for pool in pools])
        x = dense(self.dense, "dense", seed)(dropout(self.dropout, "dropout", seed)(x))
        return keras.Model(inputs, head(x, features, self.task, seed), name="convnet1d")

    def prunable(self) -> Prunable:
        """Return the filters of the convolutions, of which both of a block have as many, and the hidden dense layer."""
        return filters_and_dense(self)


Blocks = Annotated[int, Field(ge=1, le=64)]


class ResNetModel(OwnArchitecture, place=4):
    """A residual network: stages of blocks of two 3 x 3 convolutions, each block added to its input.

    Group normalisation, whose statistics are those of one example: the result is the same on any number of devices and
    with any number of micro-batches.
    """

    noun: ClassVar[str] = "residual network"
    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["resnet"] = "resnet"
    """The architecture."""

    task: ExampleTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    blocks: Annotated[tuple[Blocks, ...], LISTED, Field(min_length=1, max_length=6)] = (2, 2, 2)
    """Blocks of each stage; every stage but the first halves height and width, and doubles the filters."""

    filters: Units = 32
    """Filters of the first stage."""

    groups: Annotated[int, Field(ge=1, le=1024)] = 8
    """Groups of channels that are normalised together; they divide `filters`."""

    inner_groups: Annotated[int | None, LATER, Field(ge=1, le=1024)] = None
    """Groups of channels between the two convolutions of a block, each of as many channels as one of `groups`; default:
    as many as `groups`. Fewer make a block narrower within."""

    dropout: Dropout = 0.0
    """Share of the head's inputs dropped while training."""

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where an image cannot be halved by every stage, or groups do not divide the filters."""
        if self.filters % self.groups:
            raise Conflict("groups", self.groups, f"must divide the {self.filters} filters", "use another number")
        most = min(height, width).bit_length()
        if len(self.blocks) > most:
            rule = f"every stage but the first halves the image, and {height} x {width} pixels have room for {most}"
            raise Conflict("blocks", list(self.blocks), rule, f"give at most {most} values, or make the image larger")

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: images [B, height, width, channels] to logits [B, classes] or outputs [B, targets].

        Raises:
            Failed: the input is not an image, or too small for that many stages.
        """
        import keras

        from tasks.models.layers import conv_plain, dropout, group_normalised, head, input_layer

        feature = self.single_image(features)
        inputs, x = input_layer(feature)
        x = conv_plain(self.filters, 3, 1, "stem", seed)(x)
        for stage, blocks in enumerate(self.blocks):
            filters = self.filters << stage
            for number in range(blocks):
                stride = 2 if stage and number == 0 else 1
                x = self._block(x, filters, stride, f"stage{stage}_block{number}", seed)
        x = group_normalised(x, self.groups, "final")
        x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
        x = dropout(self.dropout, "dropout", seed)(x)
        return keras.Model(inputs, head(x, features, self.task, seed), name="resnet")

    def _block(self, x: keras.KerasTensor, filters: int, stride: int, name: str, seed: int) -> keras.KerasTensor:
        """Add a block of two convolutions; where the shape changes, its input is projected (1 x 1)."""
        import keras

        from tasks.models.layers import conv_plain, group_normalised

        inner = self.inner_groups or self.groups
        before = group_normalised(x, self.groups, f"{name}_first")
        if stride > 1 or x.shape[-1] != filters:
            x = conv_plain(filters, 1, stride, f"{name}_projection", seed)(before)
        y = conv_plain(filters // self.groups * inner, 3, stride, f"{name}_conv0", seed)(before)
        y = conv_plain(filters, 3, 1, f"{name}_conv1", seed)(group_normalised(y, inner, f"{name}_second"))
        return keras.layers.Add(name=f"{name}_add")([x, y])

    def prunable(self) -> Prunable:
        """Return the channels between the two convolutions of each block, not those that are added to its input.

        A unit is a group that is normalised by itself: without a channel, the others of its group would have other
        values.
        """
        groups = []
        for stage, blocks in enumerate(self.blocks):
            channels = (self.filters << stage) // self.groups
            for name in (f"stage{stage}_block{number}" for number in range(blocks)):
                layers = f"{name}_conv0", f"{name}_conv1", (channels,), channels, f"{name}_second_norm"
                groups.append(Group(self.inner_groups or self.groups, *layers))
        return Prunable(tuple(groups), lambda counts: self.model_copy(update={"inner_groups": counts[0]}))


def filters_and_dense(config: ConvnetModel | Convnet1dModel) -> Prunable:
    """Return the filters of blocks of two convolutions with as many, and the units of the dense layer behind them."""
    names = [f"block{block}_conv{number}" for block in range(len(config.filters)) for number in range(2)]
    counts = [filters for filters in config.filters for _ in range(2)]
    layers = [*names, "dense"]
    groups = [Group(*each) for each in zip([*counts, config.dense], layers, [*layers[1:], LOGITS], strict=True)]

    def smaller(counts: list[int]) -> Any:
        return config.model_copy(update={"filters": tuple(counts[:-1:2]), "dense": counts[-1]})

    return Prunable(tuple(groups), smaller)
