"""Methods of compression that change a Keras model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.method import FineTune, Method


class Prune(Method):
    """The smallest weights of dense and convolutional layers become 0 (Han et al., arXiv 1506.02626), or two of each
    four along the inputs (2:4); at once, or little by little while the model is trained (Zhu and Gupta, arXiv
    1710.01878). Smaller after gzip only; put a method that quantises behind it."""

    on_file: ClassVar[bool] = False
    size_ratio: ClassVar[float] = 1.05
    tolerance: ClassVar[float] = 1.0

    kind: Literal["prune"] = "prune"
    """The method."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the weights that become 0."""
    pattern: Literal["any", "2:4"] = "any"
    """Which weights: those of the smallest magnitude, or the two smallest of each four inputs of an output."""
    scope: Literal["global", "layer"] = "global"
    """Whether the share is of all layers together or of each layer."""
    fine_tune: Annotated[FineTune | None, LATER] = None
    """A training in which the zeros become more; default: none, and all weights become 0 at once."""
    ramp: Annotated[float, LATER, Field(gt=0, le=1)] = 0.5
    """Share of the steps of `fine_tune` in which the zeros become more, by a cubic schedule; then they are fixed."""

    @property
    def label(self) -> str:
        """The name of the method with its pattern or share."""
        trained = "" if self.fine_tune is None else "_trained"
        return f"{self.kind}{trained}_{'2of4' if self.pattern == '2:4' else round(100 * self.share)}"

    @property
    def training(self) -> FineTune | None:
        """The training in which the zeros become more."""
        return self.fine_tune

    @property
    def gzip_limit(self) -> float:
        """What gzip leaves of so many zeros, with a margin: half of their share is saved at least."""
        return 1 - self.share / 2

    @model_validator(mode="after")
    def a_pattern_has_its_share(self) -> Prune:
        for name in ("share", "scope"):
            if self.pattern != "any" and (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise Conflict(name, value, f"is ignored by pattern {self.pattern}", "leave it out, or use pattern any")
        return self

    @model_validator(mode="after")
    def a_ramp_has_steps(self) -> Prune:
        if self.fine_tune is None and "ramp" in self.model_fields_set:
            remedy = "leave it out, or add fine_tune: {steps: ...}"
            raise Conflict("ramp", self.ramp, "is the share of the steps of a fine_tune that is not there", remedy)
        return self


class Cluster(Method):
    """The weights of each dense and convolutional layer take few values (Han et al., arXiv 1510.00149). Smaller after
    gzip only."""

    on_file: ClassVar[bool] = False
    size_ratio: ClassVar[float] = 1.05
    tolerance: ClassVar[float] = 1.0
    gzip_ratio: ClassVar[float] = 0.5

    kind: Literal["cluster"] = "cluster"
    """The method."""
    clusters: Annotated[int, Field(ge=2, le=256)] = 16
    """Values of a layer."""

    @property
    def label(self) -> str:
        """The name of the method with the number of values."""
        return f"{self.kind}_{self.clusters}"


class Qat(Method):
    """Quantisation-aware training (Jacob et al., arXiv 1712.05877): the model is trained with weights rounded as methods
    that quantise round them. Put one behind it: `int4_dynamic` for 4 bits, `int8_dynamic` for 8."""

    on_file: ClassVar[bool] = False
    size_ratio: ClassVar[float] = 1.05
    tolerance: ClassVar[float] = 1.0

    kind: Literal["qat"] = "qat"
    """The method."""
    bits: Literal[4, 8] = 4
    """Bits of a weight of dense and convolutional layers, with a scale for each channel; of a table of embeddings 8."""
    fine_tune: FineTune
    """The training."""

    @property
    def label(self) -> str:
        """The name of the method with its bits."""
        return f"{self.kind}{self.bits}"

    @property
    def training(self) -> FineTune | None:
        """The training with rounded weights."""
        return self.fine_tune
