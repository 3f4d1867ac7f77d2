"""Inputs drawn at random, on which a float file is compared with Keras as well as on the test split.

A converter may leave out an operation that no test example needs: `relu` where all values are positive, or the rounding
of a division where no number is negative. The file then equals Keras on the test split, and not on later rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tasks.models.features import TOKENS, Arrays, Input
from tasks.models.forward import Call, Examples

ROWS, MAX_OUTPUTS = 32, 1 << 22
"""Rows that are drawn, fewer where they would have more outputs."""
FACTORS = np.array([-4, -1, 1, 4], np.float32)
"""What numbers of test examples are multiplied by, each by one of them."""
NEAR = np.float32(1 + 2**-19)
"""Numbers times this are 16 roundings away: where Keras answers otherwise there, a file may do so."""


def compared(
    model: Call, file: Call, inputs: Sequence[Input], examples: Examples, outputs: int, limit: float
) -> Mapping[str, float] | None:
    """Return the `difference` of a file on inputs drawn like the first examples; None of a model that reads texts only.

    Args:
        outputs: the number of outputs for a row.
    """
    if all(_is_text(each) for each in inputs):
        return None
    rows = max(1, min(ROWS, MAX_OUTPUTS // outputs))
    return difference(model, file, draw(inputs, examples[:rows]), limit)


def draw(inputs: Sequence[Input], examples: Arrays) -> Arrays:
    """Return inputs like `examples` (by name, [B, *shape]): numbers of either sign, any pixel, any id.

    Texts stay as they are: their padding and their order have a meaning.
    """
    random = np.random.Generator(np.random.PCG64(0))
    return {each.name: _drawn(each, examples[each.name], random) for each in inputs}


def _drawn(source: Input, values: npt.NDArray, random: np.random.Generator) -> npt.NDArray:
    if _is_text(source):
        return values
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values * random.choice(FACTORS, values.shape).astype(values.dtype)
    if source.sizes:
        return random.integers(0, source.sizes, values.shape).astype(values.dtype)
    return random.integers(0, 256, values.shape).astype(values.dtype) if values.dtype == np.uint8 else values


def _is_text(source: Input) -> bool:
    return source.padded or source.name == TOKENS


def difference(model: Call, file: Call, inputs: Arrays, limit: float) -> Mapping[str, float]:
    """Return the largest difference of a file's outputs from the model's (`max_abs_difference`), and the model's
    largest output (`largest`), over the rows on which the model's outputs are finite and steady.

    Args:
        limit: the share of the largest output, or of 1, by which a steady output changes at most from inputs to those
            that are `NEAR`: what changes by more is chaotic, such as the sine of a large number.
    """
    near = {name: array * NEAR if array.dtype.kind == "f" else array for name, array in inputs.items()}
    expected, beside, actual = _rows(model(inputs)), _rows(model(near)), _rows(file(inputs))
    finite = np.isfinite(expected).all(axis=1) & np.isfinite(beside).all(axis=1)
    largest = float(np.abs(expected[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore"):  # of two infinite ones
        steady = finite & (np.abs(expected - beside).max(axis=1) <= limit * max(1.0, largest))
    differing = np.abs(actual[steady] - expected[steady])
    found = float(np.where(np.isfinite(differing), differing, np.finfo("f4").max).max(initial=0.0))
    return {"max_abs_difference": found, "largest": largest}


def _rows(outputs: npt.NDArray) -> npt.NDArray[np.float64]:
    return outputs.reshape(len(outputs), -1).astype("f8")
