"""What the outputs of a model mean, a class a task: as a prediction, and as text and code of an export's README.

Predictions have the temperature and the thresholds that were fitted on validation. Imports NumPy alone, but for what
`millrace predict` adds (`complete`): the file is stored with each registered version, whose pyfunc model answers
without Millrace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Transform = Mapping[str, Any]
"""Of an export: `classes` or `targets`, and where they were fitted `temperature` and `thresholds`."""

TOP = 3
"""Number of classes in a prediction."""

CONTINUATION, TEMPERATURE = 60, 0.7
"""Tokens of a text's continuation, and the sampling temperature."""


class Answer:
    """The outputs of a task."""

    task: ClassVar[str]
    """Its name in `model.task`."""
    about: ClassVar[str]
    """Describes the outputs, with the fields that `readme` fills."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that the code imports besides NumPy and the runtime."""
    imports: ClassVar[tuple[str, ...]] = ("import json",)
    """Import statements of the code."""
    code: ClassVar[str]
    """Prints what `outputs`, of `inputs`, mean; `$file` is the transform with the names."""
    fields: ClassVar[tuple[str, ...]] = ()
    """The fields of an answer that are written to a file; without any there is a column for each target."""
    several_calls: ClassVar[bool] = False
    """Whether a prediction takes several calls of the model, so that there is none for its outputs alone."""

    @staticmethod
    def row(outputs: Floats, transform: Transform) -> dict[str, Any]:
        """Return the prediction for the outputs of an example."""
        raise NotImplementedError

    @staticmethod
    def complete(answer: dict[str, Any], row: Mapping[str, Any], transform: Transform) -> dict[str, Any]:
        """Return a prediction with what the raw row adds to it."""
        return answer


class Classification(Answer):
    """The logit of each class."""

    task = "classification"
    about = (
        "$count classes: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the logit of each class; their softmax is the probability of each."
        "$decision"
    )
    code = """\
names = json.load(open("$file", "rb"))["classes"]
${scale}probabilities = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
probabilities /= probabilities.sum(axis=-1, keepdims=True)  # softmax
for row in probabilities:
    $choose
"""
    fields = ("class", "confidence")

    @staticmethod
    def row(outputs: Floats, transform: Transform) -> dict[str, Any]:
        """Return the class of logits [classes], its confidence, and the most probable classes with theirs, it first."""
        scaled = outputs / transform.get("temperature", 1.0)
        confidences = np.exp(scaled - scaled.max())
        confidences /= confidences.sum()
        order = np.argsort(-confidences, kind="stable")[:TOP]
        for positive, threshold in transform.get("thresholds", {}).items():  # of two classes
            number = transform["classes"].index(positive)
            order = np.array([number, 1 - number] if confidences[number] > threshold else [1 - number, number])
        top = [{"class": transform["classes"][index], "confidence": float(confidences[index])} for index in order]
        return {**top[0], "top": top}


class Multilabel(Answer):
    """The logit of each label."""

    task = "multilabel"
    about = (
        "$count labels: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the logit of each label; its sigmoid is the probability of the "
        "label.\nA label is predicted if its probability is above $limits.$decision"
    )
    code = """\
names = json.load(open("$file", "rb"))["targets"]
${scale}probabilities = 1 / (1 + np.exp(-outputs))  # sigmoid
for row in probabilities:
    predicted = [name for name, probability in zip(names, row) if probability > $limit]
    every = ", ".join(f"{name}: {probability:.3f}" for name, probability in zip(names, row))
    print(f"{every}; predicted: {', '.join(predicted) or 'none'}")
"""

    @staticmethod
    def row(outputs: Floats, transform: Transform) -> dict[str, Any]:
        """Return the probability of each label of logits [labels]; with thresholds also those that are predicted."""
        probabilities = np.exp(-np.logaddexp(0.0, -outputs / transform.get("temperature", 1.0)))  # sigmoid
        labels = dict(zip(transform["targets"], map(float, probabilities), strict=True))
        thresholds = transform.get("thresholds")
        if thresholds is None:
            return {"labels": labels}
        return {"labels": labels, "predicted": [name for name, value in labels.items() if value > thresholds[name]]}


class Anomaly(Multilabel):
    """The logit of an anomaly."""

    task = "anomaly"
    about = (
        "How probable an anomaly is: $names.\n\n"
        "Output `$output`: float32 [batch, 1], a logit; its sigmoid is the probability of an anomaly.\nAn anomaly is "
        "predicted if its probability is above $limits.$decision"
    )


class Ranking(Multilabel):
    """The logit of relevance."""

    task = "ranking"
    about = (
        "How relevant a document is: $names.\n\n"
        "Output `$output`: float32 [batch, 1], a score by which the documents of a query are ordered; its sigmoid is "
        "the probability that a document is relevant."
    )

    @staticmethod
    def row(outputs: Floats, transform: Transform) -> dict[str, Any]:
        """Return the probability that a document is relevant; ranking has no threshold."""
        return {"labels": Multilabel.row(outputs, transform)["labels"]}


class Regression(Answer):
    """A number for each target."""

    task = "regression"
    about = (
        "Predicted numbers: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the predicted numbers in the units of the training data."
    )
    code = """\
names = json.load(open("$file", "rb"))["targets"]
for row in outputs:
    print(", ".join(f"{name}: {value:.6g}" for name, value in zip(names, row)))
"""

    @staticmethod
    def row(outputs: Floats, transform: Transform) -> dict[str, Any]:
        """Return the predicted numbers [targets] by name."""
        return {"values": dict(zip(transform["targets"], map(float, outputs), strict=True))}


class Tagging(Answer):
    """The logit of each class of each word."""

    task = "tagging"
    about = (
        "$count classes of words: $names.\n\n"
        "Output `$output`: float32 [batch, length, $count], the logit of each class of each word; what stands after "
        "the last word of a row means nothing.\nWords after the $length that a row has are cut, and have no class."
    )
    code = """\
names = json.load(open("$file", "rb"))["classes"]
for row, ids in zip(outputs, inputs["$padded"]):
    print(" ".join(names[number] for number in row[ids != 0].argmax(axis=-1)))
"""
    fields = ("tags",)

    @staticmethod
    def row(outputs: Floats, transform: Transform) -> dict[str, Any]:
        """Return the most probable class of each word from logits [words, classes]."""
        return {"tags": [transform["classes"][number] for number in outputs.argmax(axis=-1)]}

    @staticmethod
    def complete(answer: dict[str, Any], row: Mapping[str, Any], transform: Transform) -> dict[str, Any]:
        """Return tags with the entities that they make of the words, and the number of words that are cut."""
        from tasks.evaluation.tasks.tagging import scheme_of

        words = next(row[column["name"]] or [] for column in transform["columns"] if column["kind"] == "words")
        if (scheme := scheme_of(transform["classes"])) is not None:
            numbers = [transform["classes"].index(tag) for tag in answer["tags"]]
            found = scheme.entities(np.array([numbers], np.int64))
            spans = zip(found.start.tolist(), found.stop.tolist(), found.type.tolist(), strict=True)
            answer["entities"] = [
                {"type": scheme.types[kind], "words": list(words[start:stop]), "start": start, "stop": stop}
                for start, stop, kind in spans
            ]
        cut = len(words) - len(answer["tags"])
        return answer | ({"cut": cut} if cut else {})


class LanguageModel(Answer):
    """The logits of the next token at each position."""

    task = "language_model"
    about = (
        "A language model of $vocabulary tokens, the last of which, $bos, begins a document.\n\n"
        "Output `$output`: float32 [batch, length, $vocabulary], at each position the logits of the next token."
    )
    packages = ("tokenizers",)
    imports = ("from tokenizers import Tokenizer",)
    code = f"""\
tokenizer = Tokenizer.from_file("transform/tokenizer.json")
random = np.random.default_rng($seed)
tokens = inputs["tokens"][0].tolist()
for _ in range({CONTINUATION}):  # continue the first text
    logits = outputs[0, -1].astype("f8") / {TEMPERATURE}  # sampling temperature
    probabilities = np.exp(logits - logits.max())
    token = int(random.choice(len(logits), p=probabilities / probabilities.sum()))
    if token == $bos:  # the end of the document
        break
    tokens.append(token)
    outputs = predict({{"tokens": np.array([tokens[-$block:]], np.int32)}})
print(tokenizer.decode([token for token in tokens if token != $bos]))
"""
    fields = ("bytes", "bits_per_byte", "continuation")
    several_calls = True


ANSWERS: dict[str, type[Answer]] = {
    each.task: each for one in Answer.__subclasses__() for each in (one, *one.__subclasses__())
}
"""By `model.task`."""

ROWS = {task: answer.row for task, answer in ANSWERS.items() if not answer.several_calls}
"""The prediction for the outputs of an example, by `model.task`."""


def predictions(
    outputs: Any, transform: Transform, inputs: Mapping[str, Any], further: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the predictions for outputs [batch, ...] of the transform's `task`.

    Args:
        inputs: those of the model: a row of words has tags for as many as there are before its padding.
        further: the further outputs by name, [batch, n] each; their predictions are in `further`, by column.
    """
    given = np.asarray(outputs, np.float64)
    rows = list(given)
    if given.ndim == 3:
        [ids, *_] = (np.asarray(each) for each in inputs.values() if np.shape(each) == given.shape[:2])
        rows = [row[: np.count_nonzero(own)] for row, own in zip(rows, ids, strict=True)]
    answers = [ROWS[transform["task"]](row, transform) for row in rows]
    others = further or {}
    for name, about in transform["further"].items() if others else ():  # in one order, which a signature has not
        for answer, row in zip(answers, np.asarray(others[name], np.float64), strict=True):
            answer.setdefault("further", {})[about["column"]] = ROWS[about["task"]](row, about)
    return answers


PREDICTED = 0.5
"""Probability above which a label is predicted."""

USUAL_CHOICE = 'print(f"{names[row.argmax()]}: {row.max():.3f}")'
"""Prints the most probable class of a `row` of probabilities."""

CHOICE = """\
chosen = {positive} if row[{positive}] > {threshold} else {other}
    print(f"{{names[chosen]}}: {{row[chosen]:.3f}}")"""
"""Prints the class of two that a threshold decides."""


def decision_fields(transform: dict[str, Any]) -> dict[str, str]:
    """Return the fields of `about` and `code` that apply the temperature and the thresholds of a transform."""
    temperature, thresholds = transform.get("temperature"), transform.get("thresholds")
    fields = {"scale": "", "decision": "", "choose": USUAL_CHOICE, "limit": str(PREDICTED), "limits": str(PREDICTED)}
    if temperature is not None:
        fields["scale"] = f"outputs = outputs / {temperature!r}  # the temperature, fitted on the validation split\n"
        fields["decision"] = f"\nDivided by the temperature {temperature:.6g}, logits give calibrated probabilities."
    if thresholds is None:
        return fields
    if "classes" in transform and not transform.get("targets"):
        [(name, threshold)] = thresholds.items()
        number = transform["classes"].index(name)
        fields["choose"] = CHOICE.format(positive=number, threshold=repr(threshold), other=1 - number)
        fields["decision"] += f"\n{name} is predicted where its probability is above {threshold:.6g}."
        return fields
    listed = ", ".join(f"{threshold:.6g} ({name})" for name, threshold in thresholds.items())
    return fields | {"limit": f"{thresholds!r}[name]", "limits": listed}
