"""Models that the user brings: what a function of theirs returns, or the architecture in a file of Keras.

What decides such a model is part of the digest, and the model artifact has a copy of it. Random numbers are seeded
before a model is made, and Keras' counters of names begin at 0, so that the same code gives the same weights under the
same names in every process.
"""

from __future__ import annotations

import inspect
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import StringConstraints

from tasks.config.base import NOT_IDENTITY, PATTERNS, Conflict, IsPath, OwnCode
from tasks.config.task import LABEL, TASKS, AnyTask
from tasks.environment.user_code import files_of, packages_of, raised_at
from tasks.errors import Failed
from tasks.models.architecture import CODE, Architecture
from tasks.models.features import TOKENS, classes, model_inputs, targets
from tasks.models.keras_archive import CONFIG, FIELD, architecture_of, bytes_of, described, load_weights
from tasks.models.outputs import by_column, together

if TYPE_CHECKING:
    import keras

USER_MODEL_VERSION = 4
"""Incremented when a model that the user has brought would get other weights, and those of Millrace would not."""

NAMES = "object_name_uids"
"""Keras' counters of names, which number unnamed layers by process."""
RULE = "is called with model.arguments, and returns a Keras model"

NOT_CALLED = {
    "train_step": "set train.loss or train.losses, or let a layer call add_loss",
    "compute_loss": "set train.loss or train.losses, or let a layer call add_loss",
    "test_step": "set evaluate.own_metrics",
    "compute_metrics": "set evaluate.own_metrics",
    "predict_step": "put what it computes into call",
}
"""Methods by which `model.fit` and its siblings compute, which are not called here, and what does their work."""

FILES = r"\.(keras|json)$"
PATTERNS[FILES] = "must end in .keras"

Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class UserModel(Architecture, place=90):
    """A model that the user has brought; the kinds stand behind those of Millrace."""

    @property
    def code_folder(self) -> Path:
        """The folder of the user's code, whose lines errors name."""
        return Path()

    def packages(self, files: dict[str, bytes]) -> list[tuple[str, str]]:
        """Return name and version of the packages that decide the model, of its files."""
        return []

    def source_files(self) -> list[tuple[str, str]]:
        """Return path and SHA-256 of what the model is built from, and of the weights that it begins with.

        The versions of the packages that its code imports are among them, and the version of how such models are
        trained.
        """
        own = self.own_files()
        files = {f"{CODE}/{path}": sha256(content).hexdigest() for path, content in own.items()}
        files |= {f"package/{name}": number for name, number in self.packages(own)}
        files["version"] = str(USER_MODEL_VERSION)
        if self.weights_file is not None:
            with open(self.weights_file, "rb") as file:
                files["weights"] = file_digest(file, "sha256").hexdigest()
        return list(files.items())

    def finished(self, model: keras.Model, features: dict[str, Any], outputs: int) -> keras.Model:
        """Return a model that reads the features by name, and whose output is a float32 tensor of the task's shape."""
        import keras

        inputs = {}
        for each in model_inputs(features):
            shape = (None,) if each.padded or each.name == TOKENS else each.shape  # the length of a text is free
            inputs[each.name] = keras.Input(shape, dtype=each.dtype, name=each.name)
        given = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        if reads_by_name(model, inputs):
            given, result = model.input, model.output
        else:
            result = self.attempt(lambda: model(given), features)
        result, further = by_column(result, features, self.task, self.setting)
        result = self._joined(result, features)
        expected = (None, None, outputs) if TASKS[self.task].of_tokens else (None, outputs)
        if len(result.shape) != len(expected) or result.shape[-1] != outputs:
            saw = f"returned a model with outputs {list(result.shape)}"
            rule = f"the task {self.task} needs {list(expected)}: {counted(self.task, outputs)}"
            raise Failed(self.setting, saw, rule, "give its last layer so many units")
        self._refuse_probabilities(model, {output.column: output.task for output, _ in further})
        result = keras.layers.Activation("linear", dtype="float32", name="outputs")(result)
        others = [
            keras.layers.Activation("linear", dtype="float32", name=output.array)(tensor) for output, tensor in further
        ]
        return keras.Model(given, together(result, others), name="brought")

    def _joined(self, result: Any, features: dict[str, Any]) -> keras.KerasTensor:
        """Return a single output: the only one, or those of several targets side by side."""
        import keras

        if isinstance(result, keras.KerasTensor):
            return result
        names = targets(features) if TASKS[self.task].target == "target" else []
        parts = [result[name] for name in names] if isinstance(result, dict) and set(result) == set(names) else result
        if isinstance(parts, list | tuple) and len(parts) == len(names) > 0:
            return keras.layers.Concatenate(name="targets")(list(parts))
        saw = f"returned a model with {len(result)} outputs"
        rule = "one output is trained, or one for each of several targets, in their order or by name"
        raise Failed(self.setting, saw, rule, f"the targets are {', '.join(names)}" if names else "return a single one")

    def _refuse_probabilities(self, model: keras.Model, further: dict[str, str]) -> None:
        """Raise `Failed` where the last layer, or that of one of several outputs in a graph, has an activation: outputs
        are logits. `further`: the tasks of further outputs by column."""
        import keras

        layers = [layer for layer in getattr(model, "layers", []) if not isinstance(layer, keras.layers.InputLayer)]
        ends = [(layer, self.task) for layer in layers[-1:]]
        if isinstance(outputs := getattr(model, "output", None), dict):
            made = {name: tensor._keras_history.operation for name, tensor in outputs.items()}
            ends = [(layer, further.get(name, self.task)) for name, layer in made.items()]
        for layer, task in ends:
            activation = getattr(getattr(layer, "activation", None), "__name__", None)
            if activation in ("softmax", "sigmoid") and task != "regression":
                saw = f"its last layer {layer.name} has the activation {activation}"
                rule = "outputs are logits: the loss and the exported model have the activation"
                raise Failed(self.setting, saw, rule, "leave the activation out")

    def attempt(self, make: Callable[[], Any], features: dict[str, Any]) -> Any:
        """Return what the user's code returns; raises `Failed` with file and line where it fails."""
        try:
            return make()
        except Failed:
            raise
        except Exception as error:  # whatever the user's code raises
            said = (str(error).strip() or "no message").splitlines()[0][:300]
            where = raised_at(error, self.code_folder)
            raise self.failed(f"{f'{where}: ' if where else ''}{type(error).__name__}: {said}", features) from error

    def failed(self, saw: str, features: dict[str, Any]) -> Failed:
        """Return the error of a model that cannot be built; it names the features of the snapshot."""
        known = ", ".join(f"{name} {list(feature['shape'])}" for name, feature in features.items())
        return Failed(self.setting, saw, RULE, f"correct it; the features are {known}")


class ImportedModel(UserModel):
    """A Keras model that a function of yours returns: Sequential, Functional or a class of your own.

    The source of the function's module, and of what it imports from the same folder, is part of the digest, and the
    model in the store has a copy of it.
    """

    noun: ClassVar[str] = "model"
    reads: ClassVar[tuple[str, ...]] = ("image", "table", "tokens")
    own: ClassVar[bool] = True

    kind: Literal["import"] = "import"
    """The architecture."""

    task: AnyTask = "classification"
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

    @property
    def setting(self) -> str:
        """The setting that names the model, for errors about what it does."""
        return "model.target"

    @property
    def code_folder(self) -> Path:
        """The folder from which the module is imported."""
        return Path(self.folder)

    def own_files(self) -> dict[str, bytes]:
        """Return the module of the function, and what it imports from its folder, by path in `code/`.

        Raises:
            Refused: there is no such module, or it is not Python.
        """
        return files_of("model.target", self.target, self.code_folder)

    def packages(self, files: dict[str, bytes]) -> list[tuple[str, str]]:
        """Return name and version of the packages that the function's code imports."""
        return packages_of(files, self.code_folder)

    def at(self, folder: Path) -> Self:
        """Return the config with the copies of the code in a model artifact."""
        return self.model_copy(update={"folder": str(folder / CODE)})

    def build(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: inputs by the names of the features to float32 logits or outputs.

        Raises:
            Failed: the function raises an error, returns no model, or one with other outputs than the task needs.
        """
        import keras

        from tasks.reader.own_modules import imported

        outputs, policy = output_count(self.task, features), keras.config.dtype_policy()
        function = self.attempt(lambda: imported(self.target, self.code_folder), features)

        def make() -> keras.Model:
            offered = {"features": features, "outputs": outputs, "seed": seed}
            named = inspect.signature(function).parameters
            given = {name: value for name, value in offered.items() if name in named and name not in self.arguments}
            return function(**given, **in_order(self.arguments))

        with repeatable(seed):
            model = self.attempt(make, features)
            if not isinstance(model, keras.Model):
                raise self.failed(f"returned a {type(model).__name__}", features)
            refuse_own_fit(model, policy, self.setting)
            return self.finished(model, features, outputs)

    def failed(self, saw: str, features: dict[str, Any]) -> Failed:
        """Return the error of a function that makes no model; it names the features of the snapshot."""
        return super().failed(f"{self.target} {saw}", features)


class KerasFileModel(UserModel):
    """The architecture of a file `*.keras`, read in Keras' safe mode: layers of Keras alone, no code."""

    noun: ClassVar[str] = "model"
    reads: ClassVar[tuple[str, ...]] = ("image", "table", "tokens")
    own: ClassVar[bool] = True

    kind: Literal["keras_file"] = "keras_file"
    """The architecture."""

    task: AnyTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    path: Annotated[str, NOT_IDENTITY, IsPath(), StringConstraints(pattern=FILES, max_length=4096)]
    """The file; its architecture is part of the digest."""

    weights: bool = False
    """Whether the training begins with the file's weights; default: with new ones, by the seed."""

    @property
    def weights_file(self) -> str | None:
        """The file with weights that a training begins with."""
        return self.path if self.weights and self.path.endswith(".keras") else None

    def fit_start(self, given: bool) -> None:
        """Raise `Conflict` for weights that there are not, or that `train.init` would replace."""
        if self.weights and self.weights_file is None:
            rule = f"is ignored: {self.path} has an architecture alone"
            raise Conflict("weights", True, rule, "name a .keras file, or leave it out")
        if self.weights and given:
            rule = "is ignored: train.init names the weights that the training begins with"
            raise Conflict("weights", True, rule, "leave out one of them")

    @property
    def setting(self) -> str:
        """The setting that names the model, for errors about what it does."""
        return FIELD

    def own_files(self) -> dict[str, bytes]:
        """Return the architecture of the file, by path in `code/`.

        Raises:
            Refused: there is no such file, or it is not of Keras.
            Failed: it is too large, or its names are not of files in it.
        """
        return {CONFIG: architecture_of(Path(self.path))}

    def at(self, folder: Path) -> Self:
        """Return the config with the copy of the architecture in a model artifact."""
        return self.model_copy(update={"path": str(folder / CODE / CONFIG)})

    def build(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model of the file, with new weights by the seed, or those of the file.

        It is built without memory first, so that its size is known before there is a need for it.

        Raises:
            Failed: the file has layers that Keras does not know, a function, or shapes that do not fit; or its
                variables, its weights or the values between its layers are too large.
        """
        path = Path(self.path)
        outputs = output_count(self.task, features)

        def make() -> keras.Model:
            with repeatable(seed):
                return self.finished(described(path, FIELD), features, outputs)

        size = bytes_of(make, FIELD, path.name)
        if self.weights_file is None:
            return make()
        with repeatable(seed):
            model = described(path, FIELD)
            load_weights(model, path, FIELD, size)
            return self.finished(model, features, outputs)


def refuse_own_fit(model: keras.Model, policy: keras.DTypePolicy, setting: str) -> None:
    """Raise `Failed` where a model says how `model.fit` trains it, which would be ignored: its class has a step or a
    loss of its own, or it is compiled; or where Keras' dtype policy is no longer the one before it was made."""
    import keras

    for name, remedy in NOT_CALLED.items():
        if getattr(type(model), name) is not getattr(keras.Model, name):
            saw = f"a model whose class {type(model).__name__} has a {name} of its own"
            rule = "Millrace has a training loop of its own, and calls the layers of a model alone"
            raise Failed(setting, saw, rule, f"leave {name} out; {remedy}")
    if model.compiled:
        rule = "train.optimizer, train.loss and evaluate say what compile says, and it would be ignored"
        raise Failed(setting, "a model that is compiled", rule, "leave compile out")
    if (now := keras.config.dtype_policy()) != policy:
        keras.config.set_dtype_policy(policy)
        rule = "train.precision is the type that a training computes in, and what is made of it computes in float32"
        raise Failed(
            setting, f"Keras' dtype policy was set to {now.name}", rule, "leave it out, and set train.precision"
        )


def in_order(value: Any) -> Any:
    """Return a JSON value with its mappings in order of their keys, as digests and the store have them."""
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in sorted(value.items())}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def reads_by_name(model: keras.Model, inputs: dict[str, Any]) -> bool:
    """Return whether a model is a graph from exactly these inputs, so that nothing must be put around it."""
    import keras

    own = getattr(model, "inputs", None)
    if not own or not isinstance(getattr(model, "output", None), keras.KerasTensor):
        return False
    return {each.name: (each.dtype, each.shape) for each in own} == {
        name: (each.dtype, each.shape) for name, each in inputs.items()
    }


def output_count(task: str, features: dict[str, Any]) -> int:
    """Return the size of the last axis of a model's outputs."""
    if task == "language_model":
        return int(features[TOKENS]["vocabulary"])
    return len(classes(features)) if TASKS[task].target == LABEL else len(targets(features))


def counted(task: str, outputs: int) -> str:
    """Return what the outputs are."""
    return f"{outputs} {({None: 'tokens', LABEL: 'classes'}).get(TASKS[task].target, 'targets')}"


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Seed the random numbers of Python, NumPy and Keras, and count names from 0, within the context.

    Keras takes the seeds of what has none from Python's generator, which all threads and imports of a process share;
    here it has one of its own. Private attributes of Keras are replaced.
    """
    import keras
    from keras.src.backend.common import global_state
    from keras.src.random import seed_generator

    from tasks.models.layers import layer_seed

    names, number = global_state.get_global_attribute(NAMES), layer_seed(seed, "model") % 2**31
    keras.utils.set_random_seed(number)
    global_state.set_global_attribute(NAMES, defaultdict(int))
    shared, seed_generator.python_random = seed_generator.python_random, random.Random(number)
    try:
        yield
    finally:
        seed_generator.python_random = shared
        global_state.set_global_attribute(NAMES, names)
