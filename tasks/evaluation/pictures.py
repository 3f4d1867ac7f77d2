"""Plots of a report as PNG with reproducible bytes: no date, no version, no global style."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from tasks.evaluation.binary import average_precision, roc_auc
from tasks.evaluation.calibration import bins_of, error_of, gaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, ACCENT, WARM = "#1f2933", "#9aa5b1", "#2f6f8f", "#c8553d"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.dpi": 144,
}
MANY = 20
"""With more classes than this, cells have no numbers and classes no curves of their own."""

NAMED = 120
"""With more classes than this, the confusion matrix has no names."""

LINE, LINES = 26, 3
"""Characters of a line below an example, and lines of its key; of a longer key these are the last ones."""


def picture(draw: Callable[..., Figure]) -> Callable[..., bytes]:
    """Decorate a function that returns a figure: it returns PNG bytes, drawn in `STYLE` alone."""

    @wraps(draw)
    def render(*arguments: Any) -> bytes:
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
            figure, buffer = draw(*arguments), io.BytesIO()
            canvas = FigureCanvasAgg(figure)
            # `savefig` would draw the figure a second time, without output, to compute the layout
            if (layout := figure.get_layout_engine()) is not None:
                layout.execute(figure)
                figure.set_layout_engine(None)
            canvas.print_png(buffer, metadata={"Software": None})
        return buffer.getvalue()

    return render


def dots(axes: Axes, across: npt.NDArray, up: npt.NDArray) -> None:
    """Draw a dot for each example."""
    axes.scatter(across, up, s=12, alpha=0.7, color=ACCENT)


@picture
def confusion(labels: npt.NDArray, predicted: npt.NDArray, classes: list[str], title: str) -> Figure:
    """Plot the confusion matrix of labels [N] and predicted classes [N], shaded by the share of each label."""
    counts = confusion_matrix(labels, predicted, labels=range(len(classes)))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    right = np.eye(len(classes), dtype=bool)
    many = len(classes) > MANY
    side = min(max(2.2 + 0.42 * len(classes), 4.8), 12) if not many else min(4.0 + 0.13 * len(classes), 16)
    figure = Figure((side, side), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(np.where(right, shares, np.nan), cmap="Blues", vmin=0, vmax=1.3)
    # Errors reach full colour at a quarter, so that an error of one in ten is visible.
    axes.imshow(np.where(right | (counts == 0), np.nan, shares), cmap="Oranges", vmin=-0.05, vmax=0.25)
    if not many:
        for row, column in zip(*np.nonzero(counts), strict=True):
            dark = shares[row, column] > (0.7 if row == column else 0.15)
            ink = "white" if dark else INK
            axes.text(column, row, str(counts[row, column]), color=ink, ha="center", va="center", fontsize=8)
    if len(classes) <= NAMED:
        names = [shorten(name, LINE) for name in classes]
        size = 6.0 if many else 9.0
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 3 else {}
        axes.set_xticks(range(len(names)), names, fontsize=size, **({"rotation": 90} if many else slanted))
        axes.set_yticks(range(len(names)), names, fontsize=size)
    axes.set(xlabel="predicted", ylabel="label", title=f"{title}: {int(counts[~right].sum())} of {counts.sum()} wrong")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


@picture
def reliability(confidence: npt.NDArray, correct: npt.NDArray, bins: int, title: str) -> Figure:
    """Plot the share of correct predictions by confidence, and a histogram of the confidence, from [N] each."""
    column = bins_of(confidence, bins)
    counts = np.bincount(column, minlength=bins)
    filled = counts > 0
    right = np.bincount(column, correct, bins)[filled] / counts[filled]
    sure = np.bincount(column, confidence, bins)[filled] / counts[filled]
    error = error_of(gaps(confidence, correct, bins).mean(axis=0))
    centres = (np.arange(bins) + 0.5) / bins
    figure = Figure((4.8, 5.2), layout="constrained")
    # not sharex: matplotlib keeps shared axes in a set, whose order (by address) decides the layout's last bits
    above, below = figure.subplots(2, 1, height_ratios=(3, 1))
    above.tick_params(labelbottom=False)
    above.plot((0, 1), (0, 1), color=MUTED, linestyle="--", linewidth=1)
    above.bar(centres[filled], right, width=0.9 / bins, color=ACCENT, alpha=0.85, label="right")
    above.scatter(sure, right, color=WARM, s=14, zorder=3, label="at its mean confidence")
    above.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share right", title=f"{title}: calibration error {error:.4f}")
    above.legend(loc="upper left")
    below.bar(centres, counts, width=0.9 / bins, color=MUTED)
    below.set(xlabel="confidence", ylabel="examples", yscale="symlog", xlim=(0, 1))
    return figure


@picture
def curves(orders: dict[str, tuple[npt.NDArray, npt.NDArray]], title: str) -> Figure:
    """Plot the precision-recall and the ROC curve of each class against the rest, of many classes the mean curve.

    The titles have average precision and area of the only class, or the means over classes: decisions of all classes
    pooled would be mostly about the frequent ones. Classes without an example, or without any other, are left out.

    Args:
        orders: by class the score of each example, and 1 where it is of the class, else 0, [N] each.
    """
    known = {name: (scores, truth > 0) for name, (scores, truth) in orders.items() if 0 < truth.mean() < 1}
    figure = Figure((9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.9, len(known)))
    ranked = {name: precision_recall_curve(truth, scores) for name, (scores, truth) in known.items()}
    passed = {name: roc_curve(truth, scores) for name, (scores, truth) in known.items()}
    strong: dict[str, Any] = {"color": WARM, "linewidth": 2}
    if len(known) > MANY:
        across = np.linspace(0, 1, 201)
        # recall falls along the curve, and `interp` wants it to rise
        precisions = [np.interp(across, recall[::-1], each[::-1]) for each, recall, _ in ranked.values()]
        left.plot(across, np.mean(precisions, axis=0), label=f"mean of {len(known)} classes", **strong)
        rates = [np.interp(across, false, true) for false, true, _ in passed.values()]
        right.plot(across, np.mean(rates, axis=0), **strong)
    else:
        for name, colour in zip(known, colours, strict=True):
            style = strong if len(orders) == 1 else {"color": colour, "linewidth": 0.9, "alpha": 0.8}
            precision, recall, _ = ranked[name]
            left.plot(recall, precision, drawstyle="steps-post", label=name, **style)
            false, true, _ = passed[name]
            right.plot(false, true, **style)
    of = f"of {shorten(next(iter(orders)), LINE)}" if len(orders) == 1 else f"macro average of {len(known)} classes"
    left.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))
    left.set_title(f"{title}: average precision\n{of}: {_mean(average_precision, known):.4f}")
    right.set(xlabel="false positives", ylabel="true positives", xlim=(-0.01, 1), ylim=(0, 1.02))
    right.set_title(f"{title}: area under the ROC\n{of}: {_mean(roc_auc, known):.4f}")
    if known:
        left.legend(loc="lower left", ncols=2, fontsize=7)
    return figure


def shorten(name: str, most: int) -> str:
    """Return the beginning of a name that is longer than `most`."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _mean(measure: Callable[..., float], orders: dict[str, tuple[npt.NDArray, npt.NDArray]]) -> float:
    return float(np.mean([measure(*order) for order in orders.values()])) if orders else float("nan")


@picture
def most_wrong(images: npt.NDArray[np.uint8], wrong: list[dict[str, Any]], title: str) -> Figure:
    """Plot the most confidently wrong examples: image, label, predicted class, confidence, key.

    Args:
        images: [n, height, width, 1 or 3].
        wrong: n rows of a report's `most_wrong`.
    """
    columns = min(len(wrong), 6)
    rows = -(-len(wrong) // columns)
    figure = Figure((1.8 * max(columns, 3), 2.5 * rows + 0.5), layout="constrained")
    figure.suptitle(title, x=0.02, ha="left", fontsize=10, fontweight="bold")
    for axes in figure.subplots(rows, columns, squeeze=False).ravel():
        axes.axis("off")
    for axes, image, row in zip(figure.axes, images, wrong, strict=False):
        axes.imshow(image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=255)
        taken = textwrap.fill(f"{row['label']} taken for {row['predicted']}", LINE)
        axes.set_title(taken, fontsize=8, loc="center", fontweight="normal")
        key = row["key"][-LINE * LINES :]
        lines = [key[start : start + LINE] for start in range(0, len(key), LINE)]
        caption = "\n".join([f"{row['confidence']:.0%} sure", *lines])
        axes.text(0.5, -0.05, caption, transform=axes.transAxes, ha="center", va="top", fontsize=6.5, color="#52606d")
    return figure
