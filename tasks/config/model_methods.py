"""Methods of compression that change a Keras model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import BY_KIND, LATER, NOT_IDENTITY, Conflict, Name
from tasks.config.fine_tune import Text
from tasks.config.method import FineTune, Method
from tasks.config.task import TASKS
from tasks.models import OwnModel


class Prune(Method):
    """The smallest weights of dense and convolutional layers become 0 (Han et al., arXiv 1506.02626), or two of each
    four along the inputs (2:4); at once, or little by little while the model is trained (Zhu and Gupta, arXiv
    1710.01878). Smaller after gzip only; put a method that quantises behind it."""

    on_file: ClassVar[bool] = False
    size_ratio: ClassVar[float] = 1.05
    undone_by_training: ClassVar[bool] = True

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
        if self.fine_tune is None and self.ramp != type(self).model_fields["ramp"].default:
            remedy = "leave it out, or add fine_tune: {steps: ...}"
            raise Conflict("ramp", self.ramp, "is the share of the steps of a fine_tune that is not there", remedy)
        return self


class Cluster(Method):
    """The weights of each dense and convolutional layer take few values (Han et al., arXiv 1510.00149). Smaller after
    gzip only."""

    on_file: ClassVar[bool] = False
    size_ratio: ClassVar[float] = 1.05
    gzip_ratio: ClassVar[float] = 0.5
    undone_by_training: ClassVar[bool] = True
    moves_weights: ClassVar[bool] = True

    kind: Literal["cluster"] = "cluster"
    """The method."""
    clusters: Annotated[int, Field(ge=2, le=256)] = 16
    """Values of a layer."""

    @property
    def label(self) -> str:
        """The name of the method with the number of values."""
        return f"{self.kind}_{self.clusters}"


class Trained(Method):
    """A method that needs a training."""

    on_file: ClassVar[bool] = False

    fine_tune: FineTune
    """The training."""

    @property
    def training(self) -> FineTune | None:
        """The training, of the model that the method has prepared."""
        return self.fine_tune


class Qat(Trained):
    """Quantisation-aware training (Jacob et al., arXiv 1712.05877): the weights are rounded in the training as a method
    that quantises rounds them. Put one behind it: `int4_dynamic` for 4 bits, `int8_dynamic` for 8. Alone it makes a
    file of float weights, smaller after gzip only."""

    size_ratio: ClassVar[float] = 1.05
    undone_by_training: ClassVar[bool] = True

    kind: Literal["qat"] = "qat"
    """The method."""
    bits: Literal[4, 8] = 4
    """Bits of a weight of dense and convolutional layers, with a scale for each channel; of a table of embeddings 8."""

    @property
    def label(self) -> str:
        """The name of the method with its bits."""
        return f"{self.kind}{self.bits}"

    def undone_by(self, behind: Method) -> tuple[str, str] | None:
        """Return also why a method rounds the weights to another grid."""
        if behind.weight_bits is not None and behind.weight_bits < self.bits:
            rule = f"qat rounds weights to {self.bits} bits, and {behind.kind} to {behind.weight_bits} again"
            return rule, f"set bits to {behind.weight_bits}"
        if behind.weight_bits == self.bits and not behind.by_channel:
            rule = f"qat rounds the weights of a channel by one scale, and {behind.kind} those of a block by another"
            return rule, "leave block out"
        if behind.moves_weights:
            rule = f"qat rounds weights as a method that quantises does, and {behind.kind} gives them other values"
            return rule, f"leave {behind.kind} out"
        return super().undone_by(behind)


class Distill(Trained):
    """Distillation (Hinton et al., arXiv 1503.02531): another model, the student, is trained on the labels and on the
    outputs of a teacher."""

    adds_loss: ClassVar[bool] = True

    kind: Literal["distill"] = "distill"
    """The method."""
    name: Annotated[Name | None, NOT_IDENTITY] = None
    """The student in the name of the variant; default: its kind."""
    student: Annotated[OwnModel, BY_KIND]
    """The model that is trained, from new weights; of the same task, and an architecture of Millrace."""
    teacher: Annotated[Text | None, NOT_IDENTITY] = None
    """A model in the store, by its digest, or that of a registered version, NAME@ALIAS; its digest is a parent.
    Default: the model that the methods before this one have made, or that of the run."""
    temperature: Annotated[float, Field(ge=1, le=100)] = 4.0
    """Divides the logits of both, so that the teacher's small probabilities count."""
    weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Factor of the divergence of the outputs, which is also multiplied by the square of the temperature; the loss of
    the labels has 1."""
    hidden: dict[str, str] = {}
    """Layers of the student, and layers of the teacher whose outputs they should have: `{dense1: dense3}`. They have
    the same shape."""
    hidden_weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Factor of the mean cosine distance of these outputs."""
    fine_tune: FineTune
    """The training of the student."""

    @property
    def label(self) -> str:
        """The name of the method with that of the student."""
        return f"{self.kind}_{self.name or self.student.kind}"

    @property
    def teacher_model(self) -> str | None:
        """The model that the student learns from; empty for the one before the method."""
        return self.teacher or ""

    @property
    def student_model(self) -> OwnModel | None:
        """The student."""
        return self.student

    @model_validator(mode="after")
    def the_teacher_counts(self) -> Distill:
        if self.hidden and self.hidden_weight == 0:
            raise Conflict("hidden_weight", 0, "is the factor of the layers in hidden", "raise it, or leave hidden out")
        if self.weight == 0 and not self.hidden:
            rule = "is the factor of all that the student learns from the teacher"
            raise Conflict("weight", 0, rule, "raise it, name layers in hidden, or leave distill out")
        if self.weight == 0 and self.temperature != type(self).model_fields["temperature"].default:
            rule = "is of the divergence of the outputs, whose weight is 0"
            raise Conflict("temperature", self.temperature, rule, "leave it out, or raise weight")
        return self

    @model_validator(mode="after")
    def layers_are_weighed(self) -> Distill:
        if not self.hidden and self.hidden_weight != type(self).model_fields["hidden_weight"].default:
            remedy = "leave it out, or name layers in hidden"
            raise Conflict("hidden_weight", self.hidden_weight, "is the factor of layers that are not named", remedy)
        return self

    @model_validator(mode="after")
    def outputs_have_a_divergence(self) -> Distill:
        if (loss := TASKS[self.student.task].losses[0]) not in ("cross_entropy", "binary_cross_entropy"):
            rule = f"its outputs are no logits of probabilities, as {loss} is its loss"
            raise Conflict("student.task", self.student.task, rule, "leave distill out")
        return self


class LowRank(Trained):
    """The kernel of a dense or convolutional layer becomes the product of two smaller ones (Zhang et al., arXiv
    1505.06798), by a singular value decomposition, and the model is trained again. Smaller by itself."""

    kind: Literal["low_rank"] = "low_rank"
    """The method."""
    rank: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Values between the two layers; either this or `energy`."""
    energy: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of a kernel's squared singular values that is kept, from which the rank of each layer follows; either this
    or `rank`."""
    fine_tune: FineTune
    """The training of all layers."""

    @property
    def label(self) -> str:
        """The name of the method with its rank or share."""
        return f"{self.kind}_{self.rank if self.energy is None else f'e{round(100 * self.energy)}'}"

    @model_validator(mode="after")
    def rank_or_energy(self) -> LowRank:
        if (self.rank is None) == (self.energy is None):
            raise ValueError("needs exactly one of rank and energy; set one and leave the other out")
        return self


class PruneStructured(Trained):
    """Whole filters, hidden units and attention heads of the smallest norm are left out (Li et al., arXiv 1608.08710;
    Michel et al., arXiv 1905.10650), and the model is trained again: the same architecture, smaller and faster. For
    `mlp`, `convnet`, `convnet1d`, the channels within the blocks of `resnet`, and the heads and feed-forward layers of
    `encoder`, `transformer` and `vit`; of feed-forward layers with `experts` all units stay."""

    kind: Literal["prune_structured"] = "prune_structured"
    """The method."""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the units of each layer that is left out; one stays. 0: heads alone are left out."""
    heads: Annotated[float | None, LATER, Field(ge=0, lt=1)] = None
    """Share of the attention heads of each block that is left out, with `kv_heads` of the groups of heads that share
    keys and values; default: `share`."""
    norm: Literal["l1", "l2"] = "l1"
    """Norm of the weights of a unit; of a head of those that read it."""
    fine_tune: FineTune
    """The training of what is left."""

    @property
    def label(self) -> str:
        """The name of the method with its shares."""
        heads = "" if self.heads is None else f"_heads_{round(100 * self.heads)}"
        return f"{self.kind}_{round(100 * self.share)}{heads}"

    def share_of(self, part: Literal["units", "heads"]) -> float:
        """Return the share of the units or heads that is left out."""
        return self.heads if part == "heads" and self.heads is not None else self.share

    @model_validator(mode="after")
    def some_are_left_out(self) -> PruneStructured:
        if self.share == 0 and not self.heads:
            raise Conflict("share", self.share, "leaves nothing out", "raise it, or set heads")
        return self
