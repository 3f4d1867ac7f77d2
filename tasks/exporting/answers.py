"""What the outputs of a model mean, by task: as text and code of an export's README (`prediction`: as a row)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.evaluation.tasks.language_model import SEED

PREDICTED = 0.5
"""Probability above which a label is predicted."""

CONTINUATION, TEMPERATURE = 60, 0.7
"""Tokens of a text's continuation, and the sampling temperature."""


@dataclass(frozen=True)
class Answers:
    """The outputs of a task."""

    about: str
    """Describes the outputs, with the fields that `readme` fills."""

    packages: tuple[str, ...]
    """Packages that the code imports besides NumPy and the runtime."""

    imports: tuple[str, ...]
    """Import statements of the code."""

    code: str
    """Prints what `outputs`, of `inputs`, mean; `$file` is the transform with the names."""


LABELS = """\
names = json.load(open("$file", "rb"))["targets"]
${scale}probabilities = 1 / (1 + np.exp(-outputs))  # sigmoid
for row in probabilities:
    predicted = [name for name, probability in zip(names, row) if probability > $limit]
    every = ", ".join(f"{name}: {probability:.3f}" for name, probability in zip(names, row))
    print(f"{every}; predicted: {', '.join(predicted) or 'none'}")
"""
"""Prints the probability of each label, and which are predicted."""

ANSWERS = {
    "classification": Answers(
        "$count classes: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the logit of each class; their softmax is the probability of each."
        "$decision",
        (),
        ("import json",),
        """\
names = json.load(open("$file", "rb"))["classes"]
${scale}probabilities = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
probabilities /= probabilities.sum(axis=-1, keepdims=True)  # softmax
for row in probabilities:
    $choose
""",
    ),
    "multilabel": Answers(
        "$count labels: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the logit of each label; its sigmoid is the probability of the "
        "label.\nA label is predicted if its probability is above $limits.$decision",
        (),
        ("import json",),
        LABELS,
    ),
    "anomaly": Answers(
        "How probable an anomaly is: $names.\n\n"
        "Output `$output`: float32 [batch, 1], a logit; its sigmoid is the probability of an anomaly.\nAn anomaly is "
        "predicted if its probability is above $limits.$decision",
        (),
        ("import json",),
        LABELS,
    ),
    "ranking": Answers(
        "How relevant a document is: $names.\n\n"
        "Output `$output`: float32 [batch, 1], a score by which the documents of a query are ordered; its sigmoid is "
        "the probability that a document is relevant.",
        (),
        ("import json",),
        LABELS,
    ),
    "tagging": Answers(
        "$count classes of words: $names.\n\n"
        "Output `$output`: float32 [batch, length, $count], the logit of each class of each word; what stands after "
        "the last word of a row means nothing.\nWords after the $length that a row has are cut, and have no class.",
        (),
        ("import json",),
        """\
names = json.load(open("$file", "rb"))["classes"]
for row, ids in zip(outputs, inputs["$padded"]):
    print(" ".join(names[number] for number in row[ids != 0].argmax(axis=-1)))
""",
    ),
    "regression": Answers(
        "Predicted numbers: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the predicted numbers in the units of the training data.",
        (),
        ("import json",),
        """\
names = json.load(open("$file", "rb"))["targets"]
for row in outputs:
    print(", ".join(f"{name}: {value:.6g}" for name, value in zip(names, row)))
""",
    ),
    "language_model": Answers(
        "A language model of $vocabulary tokens, the last of which, $bos, begins a document.\n\n"
        "Output `$output`: float32 [batch, length, $vocabulary], at each position the logits of the next token.",
        ("tokenizers",),
        ("from tokenizers import Tokenizer",),
        f"""\
tokenizer = Tokenizer.from_file("transform/tokenizer.json")
random = np.random.default_rng({SEED})
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
""",
    ),
}
"""By `model.task`."""


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
