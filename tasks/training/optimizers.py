"""Update rules: the optimizers of Keras whose result is a function of the gradients and their own state.

A setting is named as the argument of the Keras class that it is passed to.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import LATER, LISTED, Conflict
from tasks.config.kinds import Kind, any_of

if TYPE_CHECKING:
    import keras

Decay = Annotated[float, Field(ge=0, lt=1)]
Shrink = Annotated[float, Field(ge=0, lt=1)]
Epsilon = Annotated[float, Field(gt=0, lt=1)]
Strength = Annotated[float, Field(ge=0)]

Pattern = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""A layer's name or path, in which `*` is any text: `block_*`, `*/attention/*`."""


def named(path: str, pattern: str) -> bool:
    """Return whether a variable is of a layer that a pattern names, by its path: `block_0/attention/query/kernel`.

    A pattern names a layer by its path, by that of a layer around it, or by the name of one of them alone.
    """
    *names, _ = path.split("/")
    paths = ["/".join(names[:length]) for length in range(1, len(names) + 1)]
    return any(fnmatchcase(each, pattern) for each in (*paths, *names))


class Optimizer(Kind):
    """What all update rules have."""

    keras_class: ClassVar[str]
    """Name of the class in `keras.optimizers`."""
    whole: ClassVar[bool] = False
    """Whether the update of a number depends on the whole matrix that it is in."""
    layers: ClassVar[dict[str, str]] = {}
    """Settings with names of layers, and the arguments of the Keras class that take expressions for the paths of their
    variables."""

    weight_decay: Annotated[Shrink, LATER] = 0.0
    """Share of the learning rate by which matrices shrink at each step, apart from the gradient (Loshchilov and Hutter,
    arXiv 1711.05101); vectors (bias, norm) and embeddings stay."""
    no_decay: Annotated[tuple[Pattern, ...], LATER, LISTED] = ()
    """Names of layers whose matrices do not shrink either; `*` is any text."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the Keras class, without the learning rate and those of `layers`."""
        values = self.model_dump(exclude={"kind", "no_decay", *self.layers})
        return {**values, "weight_decay": self.weight_decay or None}

    def create(self, **more: Any) -> keras.optimizers.Optimizer:
        """Return the optimizer of Keras, whose learning rate is 1 until one is assigned."""
        import keras

        return getattr(keras.optimizers, self.keras_class)(1.0, **self.arguments(), **more)

    @model_validator(mode="after")
    def exceptions_of_a_decay(self) -> Optimizer:
        if self.no_decay and not self.weight_decay:
            rule = "is ignored where nothing decays"
            raise Conflict("no_decay", list(self.no_decay), rule, "set weight_decay above 0, or leave it out")
        return self


class TwoMoments(Optimizer):
    """What Adam and its relatives have: decayed means of the gradient and of its square."""

    beta_1: Decay = 0.9
    """Decay of the first moment."""
    beta_2: Decay = 0.999
    """Decay of the second moment."""
    epsilon: Epsilon = 1e-7
    """Added to the denominator."""


class Adam(TwoMoments):
    """Adam (Kingma and Ba, arXiv 1412.6980)."""

    keras_class: ClassVar[str] = "Adam"

    kind: Literal["adam"] = "adam"
    """The update rule."""
    amsgrad: Annotated[bool, LATER] = False
    """Whether the largest second moment so far is the denominator (Reddi et al., arXiv 1904.09237)."""


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101)."""

    keras_class: ClassVar[str] = "AdamW"

    kind: Literal["adamw"] = "adamw"  # type: ignore[assignment]
    """The update rule."""
    weight_decay: Shrink = 0.01
    """Share of the learning rate by which matrices shrink at each step; vectors (bias, norm) and embeddings stay."""


class Nadam(TwoMoments):
    """Adam with Nesterov momentum (Dozat, ICLR workshop 2016)."""

    keras_class: ClassVar[str] = "Nadam"

    kind: Literal["nadam"] = "nadam"
    """The update rule."""


class Adamax(TwoMoments):
    """Adam with the infinity norm (Kingma and Ba, arXiv 1412.6980, section 7)."""

    keras_class: ClassVar[str] = "Adamax"

    kind: Literal["adamax"] = "adamax"
    """The update rule."""


class Lamb(TwoMoments):
    """Adam with a rate for each layer by the norms of weights and update (You et al., arXiv 1904.00962)."""

    keras_class: ClassVar[str] = "Lamb"
    whole: ClassVar[bool] = True

    kind: Literal["lamb"] = "lamb"
    """The update rule."""


class Lion(Optimizer):
    """Lion, the sign of an interpolated momentum (Chen et al., arXiv 2302.06675)."""

    keras_class: ClassVar[str] = "Lion"

    kind: Literal["lion"] = "lion"
    """The update rule."""
    beta_1: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Share of the momentum in the update."""
    beta_2: Decay = 0.99
    """Decay of the momentum."""


class Muon(Optimizer):
    """Muon (Jordan, 2024): the momentum of a matrix is orthogonalised, and scaled as by Liu et al. (arXiv 2502.16982).

    Vectors, arrays of three or more axes, variables with `embedding` in their path and the layers of `adam_layers` are
    updated by AdamW.
    """

    keras_class: ClassVar[str] = "Muon"
    whole: ClassVar[bool] = True
    layers: ClassVar[dict[str, str]] = {"adam_layers": "exclude_layers"}

    kind: Literal["muon"] = "muon"
    """The update rule."""
    momentum: Decay = 0.95
    """Decay of the momentum."""
    nesterov: bool = True
    """Whether the momentum is that of the next step (Nesterov, 1983)."""
    ns_steps: Annotated[int, Field(ge=1, le=20)] = 5
    """Newton-Schulz iterations of the orthogonalisation."""
    rms_rate: Annotated[float, Field(gt=0, le=10)] = 0.2
    """Root mean square of an update's numbers, as a multiple of the learning rate."""
    adam_layers: Annotated[tuple[Pattern, ...], LISTED] = ("logits",)
    """Names or paths of layers that AdamW updates, usually the output layer; `*` is any text. One that names no layer
    is refused, but for the default: a model of yours may have no layer of this name."""
    adam_lr_ratio: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Learning rate of AdamW, as a multiple of Muon's."""
    adam_beta_1: Decay = 0.9
    """Decay of AdamW's first moment."""
    adam_beta_2: Decay = 0.999
    """Decay of AdamW's second moment."""
    epsilon: Epsilon = 1e-7
    """Added to the denominator by AdamW."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the Keras class; the weight decay is that of both rules."""
        values = super().arguments()
        return {**values, "adam_weight_decay": values["weight_decay"]}


class Rmsprop(Optimizer):
    """RMSprop (Tieleman and Hinton, Coursera lecture 6.5, 2012)."""

    keras_class: ClassVar[str] = "RMSprop"

    kind: Literal["rmsprop"] = "rmsprop"
    """The update rule."""
    rho: Decay = 0.9
    """Decay of the mean square."""
    momentum: Decay = 0.0
    """Decay of the velocity."""
    epsilon: Epsilon = 1e-7
    """Added to the denominator."""
    centered: bool = False
    """Whether gradients are divided by the standard deviation, and not by the root of the mean square."""


class Adagrad(Optimizer):
    """Adagrad (Duchi et al., JMLR 2011)."""

    keras_class: ClassVar[str] = "Adagrad"

    kind: Literal["adagrad"] = "adagrad"
    """The update rule."""
    initial_accumulator_value: Strength = 0.1
    """The sum of squares before the first step."""
    epsilon: Epsilon = 1e-7
    """Added to the denominator."""


class Adadelta(Optimizer):
    """Adadelta (Zeiler, arXiv 1212.5701)."""

    keras_class: ClassVar[str] = "Adadelta"

    kind: Literal["adadelta"] = "adadelta"
    """The update rule."""
    rho: Decay = 0.95
    """Decay of the mean squares."""
    epsilon: Epsilon = 1e-7
    """Added to both mean squares."""


class Adafactor(Optimizer):
    """Adafactor, whose second moment of a matrix is a row and a column (Shazeer and Stern, arXiv 1804.04235).

    The step is `train.learning_rate`, without the relative step of the paper.
    """

    keras_class: ClassVar[str] = "Adafactor"
    whole: ClassVar[bool] = True

    kind: Literal["adafactor"] = "adafactor"
    """The update rule."""
    beta_2_decay: Annotated[float, Field(ge=-1, lt=0)] = -0.8
    """Exponent of the step in the decay of the second moment."""
    epsilon_1: Annotated[float, Field(gt=0, lt=1)] = 1e-16
    """Added to the squares. With Keras' 1e-30 a row and a column without a gradient, as of dead units, give 0 / 0."""
    epsilon_2: Epsilon = 1e-3
    """The smallest root mean square of the weights by which the rate is multiplied."""
    clip_threshold: Annotated[float, Field(gt=0)] = 1.0
    """Largest root mean square of an update."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the Keras class."""
        return {**super().arguments(), "relative_step": False}


class Ftrl(Optimizer):
    """Follow the regularised leader (McMahan et al., KDD 2013), for wide, sparse models."""

    keras_class: ClassVar[str] = "Ftrl"

    kind: Literal["ftrl"] = "ftrl"
    """The update rule."""
    learning_rate_power: Annotated[float, Field(ge=-10, le=0)] = -0.5
    """Exponent of the sum of squares in the rate of a weight."""
    initial_accumulator_value: Strength = 0.1
    """The sum of squares before the first step."""
    l1_regularization_strength: Strength = 0.0
    """Weight of the L1 norm."""
    l2_regularization_strength: Strength = 0.0
    """Weight of the squared L2 norm."""
    l2_shrinkage_regularization_strength: Strength = 0.0
    """Weight of the squared L2 norm in the gradient."""
    beta: Strength = 0.0
    """Added to the root of the sum of squares."""


class Sgd(Optimizer):
    """Stochastic gradient descent, with momentum (Sutskever et al., ICML 2013) where it is not 0."""

    keras_class: ClassVar[str] = "SGD"

    kind: Literal["sgd"] = "sgd"
    """The update rule."""
    momentum: Decay = 0.0
    """Decay of the velocity."""
    nesterov: bool = False
    """Nesterov momentum (Nesterov, 1983)."""

    @model_validator(mode="after")
    def nesterov_needs_momentum(self) -> Sgd:
        if self.nesterov and self.momentum == 0:
            raise Conflict("nesterov", True, "is ignored without momentum", "set momentum above 0 or nesterov to false")
        return self


if TYPE_CHECKING:
    OptimizerConfig = Optimizer
else:
    OptimizerConfig = any_of(Optimizer.kinds().values())
