"""A model of several outputs: the main one, and further ones that each predict a column of their own.

Within a training they are one tensor, the main output first, so that every strategy, the scaling of float16 and
recomputation have no more to do than with one output. Each further output is judged as that of a model which has it
alone: its column stands where the label or the targets are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.config.task import LABEL, OUTPUT, TASKS, is_input
from tasks.errors import Failed
from tasks.models.features import classes, targets

if TYPE_CHECKING:
    import keras

    from tasks.models.forward import Function

FURTHER = "further"
"""The signature of an export that answers for them."""
TOGETHER = "all_outputs"
"""Name of the layer that puts the outputs side by side."""


@dataclass(frozen=True)
class FurtherOutput:
    """An output of a model beside the main one, which predicts a column of its own."""

    column: str
    """The column that it predicts."""
    name: str
    """Its name in metrics: that of the column, in ASCII."""
    feature: dict[str, Any]
    """What the snapshot says of the column."""

    @property
    def array(self) -> str:
        """The name of the snapshot's array with the answers."""
        return f"{OUTPUT}{self.name}"

    @property
    def task(self) -> str:
        """The task of a model that predicts the column alone."""
        kind = "category" if "classes" in self.feature else "number"
        return next(task.name for task in TASKS.values() if task.output == kind)

    @property
    def target(self) -> str:
        """The name that its feature has where it is the only one to predict."""
        return TASKS[self.task].target or ""

    @property
    def size(self) -> int:
        """How many numbers the output has for an example."""
        return len(classes(self.alone)) if self.target == LABEL else len(targets(self.alone))

    @property
    def meaning(self) -> dict[str, list[str]]:
        """The names of what its numbers stand for, as an export's `transform` has those of the main output."""
        return {"classes": classes(self.alone)} if self.target == LABEL else {"targets": targets(self.alone)}

    @property
    def alone(self) -> dict[str, Any]:
        """The features of a snapshot with nothing but what it predicts."""
        return {self.target: self.feature}

    def seen_by(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return features, or arrays by their names, as of a snapshot in which this column is all that is predicted."""
        return {name: each for name, each in features.items() if is_input(name)} | {self.target: features[self.array]}


def further_outputs(features: dict[str, Any]) -> list[FurtherOutput]:
    """Return the further outputs of a model, in the order in which they follow the main one."""
    return [
        FurtherOutput(features[name]["column"], name.removeprefix(OUTPUT), features[name])
        for name in sorted(features)
        if name.startswith(OUTPUT)
    ]


def main_columns(features: dict[str, Any], task: str) -> list[str]:
    """Return the columns that the main output predicts, of a snapshot with further outputs."""
    return [features[LABEL]["column"]] if TASKS[task].target == LABEL else targets(features)


def by_column(
    returned: Any, features: dict[str, Any], task: str, setting: str
) -> tuple[Any, list[tuple[FurtherOutput, keras.KerasTensor]]]:
    """Return the main output of a brought model, one tensor or one for each target, and its further outputs.

    Raises:
        Failed: it does not return them by the names of their columns, or one has another shape.
    """
    further = further_outputs(features)
    if not further:
        return returned, []
    main = main_columns(features, task)
    expected = [*main, *(each.column for each in further)]
    if not isinstance(returned, dict) or set(returned) != set(expected):
        saw = f"the outputs {', '.join(map(str, returned))}" if isinstance(returned, dict) else "outputs without names"
        rule = f"each column that is predicted has an output of its name: {', '.join(expected)}"
        remedy = "return a dict of these, or correct source.outputs and train.losses"
        raise Failed(setting, f"returned a model with {saw}", rule, remedy)
    for each in further:
        if len(shape := returned[each.column].shape) != 2 or shape[-1] != each.size:
            rule = f"{each.task} of {each.column} needs {[None, each.size]}"
            saw = f"returned a model whose output {each.column} has shape {list(shape)}"
            raise Failed(setting, saw, rule, "give its last layer so many units")
    own: Any = {name: returned[name] for name in main}
    return own[main[0]] if len(main) == 1 else own, [(each, returned[each.column]) for each in further]


def together(main: keras.KerasTensor, further: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    """Return outputs side by side, float32 [batch, n]; the main one as it is where there is no other."""
    import keras

    return keras.layers.Concatenate(dtype="float32", name=TOGETHER)([main, *further]) if further else main


def with_main_output(model: keras.Model) -> keras.Model:
    """Return the part of a model that makes its main output; its layers are shared."""
    import keras

    parts = parts_of(model)
    return keras.Model(model.input, parts[0], name=model.name) if parts else model


def parts_of(model: keras.Model) -> list[keras.KerasTensor]:
    """Return the outputs of a model that has several, the main one first; nothing where it has one."""
    joined = next((layer for layer in model.layers if layer.name == TOGETHER), None)
    return [] if joined is None else list(joined.input)


def further_function(model: keras.Model, features: dict[str, Any]) -> list[Function]:
    """Return the function that answers for the further outputs of a model, each by its name, float32 [batch, size];
    nothing where it has none."""
    import keras

    from tasks.models.forward import Function, arguments

    names = [output.name for output in further_outputs(features)]
    if not names:
        return []
    # by name: of a list of one output Keras returns the output alone
    graph = keras.Model(model.input, dict(zip(names, parts_of(model)[1:], strict=True)), name=FURTHER)
    known = {id(weight) for weight in with_main_output(model).weights}

    def call(tensors: Mapping[str, Any]) -> dict[str, Any]:
        answers: dict[str, Any] = graph(arguments(graph, tensors), training=False)
        return answers

    own = [weight for weight in graph.weights if id(weight) not in known]
    return [Function(FURTHER, model.inputs, call, graph, names, own)]
