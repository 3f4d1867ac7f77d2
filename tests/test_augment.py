"""Augmentations are functions of (seed, epoch, row), and do what their papers say."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from tasks.config.compose import Config
from tasks.draws import Draws, permutation
from tasks.errors import Refused
from tasks.feed import augmenter as augmenting
from tasks.feed import image_operations
from tasks.feed.augmentations import AUGMENTATIONS, AugmentConfig, RandAugment, TokenDropout
from tasks.feed.augmenter import MIXED, OTHER_LABEL, OTHER_WEIGHT, Augmenter
from tasks.feed.image_operations import OPERATIONS
from tasks.feed.snapshot_reader import BatchReader
from tests.support.homes import ROOT

N, SEED = 40, 9
RNG = np.random.default_rng(3)
IMAGES = RNG.integers(0, 256, (N, 12, 10, 3), np.uint8)
SOUNDS = RNG.normal(size=(N, 30, 6)).astype(np.float32)
TEXTS = RNG.integers(1, 50, (N, 64)).astype(np.uint16)
LABELS = RNG.integers(0, 3, N)
FEATURES: dict[str, dict[str, Any]] = {
    "image": {"dtype": "uint8", "shape": [12, 10, 3]},
    "sound": {"dtype": "float32", "shape": [30, 6]},
    "text": {"dtype": "uint16", "shape": [64], "vocabulary": 50},
    "label": {"dtype": "int64", "shape": [], "classes": ["a", "b", "c"]},
}
ARRAYS: dict[str, NDArray[Any]] = {"image": IMAGES, "sound": SOUNDS, "text": TEXTS, "label": LABELS}
STRONG = {"rand_augment": {"magnitude": 9.0}, "token_dropout": {"share": 0.3}, "flip": {"share": 0.9}}


def configs(*values: dict[str, Any]) -> list[Any]:
    return [TypeAdapter(AugmentConfig).validate_python(each) for each in values]


def of(kind: str, **more: Any) -> tuple[Any, str]:
    """A config of a kind, and the input that it changes in these tests."""
    config = configs({"kind": kind, **STRONG.get(kind, {}), **more})[0]
    return config, config.reads[0].replace("tokens", "text")


def changed(kind: str, seed: int = SEED, epoch: int = 0, rows: list[int] | None = None, **more: Any) -> dict[str, Any]:
    """The rows as an augmentation changes them in an epoch."""
    config, name = of(kind, **more)
    chosen = np.arange(N) if rows is None else np.array(rows)
    augmenter = Augmenter([config], {name: FEATURES[name], "label": FEATURES["label"]}, ARRAYS, seed)
    batch = {name: ARRAYS[name][chosen][None], "label": LABELS[chosen][None], "row": chosen[None]}
    made = augmenter(batch, np.full((1, len(chosen)), epoch, np.uint64))
    assert made[name].dtype == ARRAYS[name].dtype and made[name].shape == batch[name].shape
    return {each: values[0] for each, values in made.items()} | {"": made[name][0], "before": ARRAYS[name][chosen]}


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_a_row_of_an_epoch_becomes_the_same_in_any_batch(kind: str) -> None:
    whole, other = changed(kind)[""], changed(kind, epoch=1)[""]
    for rows in ([17], [3, 39, 0], list(range(N))[::-1]):
        np.testing.assert_array_equal(changed(kind, rows=rows)[""], whole[rows])
    assert (whole != changed(kind)["before"]).any()
    assert (whole != other).any() and (whole != changed(kind, seed=SEED + 1)[""]).any()


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_replicas_and_steps_of_a_call_change_nothing(kind: str) -> None:
    config, name = of(kind)
    arrays = {name: ARRAYS[name], "label": LABELS}
    augmenter = Augmenter([config], {each: FEATURES[each] for each in arrays}, arrays, SEED)

    def read(start: int, stop: int, **more: int) -> dict[str, Any]:
        reader = BatchReader(arrays, "train", 12, seed=SEED, **more)  # type: ignore[arg-type]
        return augmenter(reader.read(start, stop), reader.epochs_of(start, stop))

    whole = read(0, 8)  # of two epochs and more
    parts = [read(step, step + 1, replica=replica, replicas=3) for step in range(8) for replica in range(3)]
    for each in whole:
        joined = np.concatenate([part[each][0] for part in parts]).reshape(whole[each].shape)
        np.testing.assert_array_equal(joined, whole[each], err_msg=each)
    rows, values = whole["row"].ravel(), whole[name].reshape(-1, *whole[name].shape[2:])
    first, second = (values[np.argsort(rows[epoch * N : (epoch + 1) * N]) + epoch * N] for epoch in (0, 1))
    assert (first != second).any(), "another draw in each epoch"


def test_inputs_are_known_by_their_type_and_shape() -> None:
    def feature(dtype: str, *shape: int, **more: Any) -> dict[str, Any]:
        return {"dtype": dtype, "shape": list(shape), **more}

    inputs = {
        "image": feature("uint8", 8, 8, 3),
        "bytes": feature("uint8", 8, 8),
        "sound": feature("float32", 30, 6),
        "film": feature("float32", 2, 30, 6),
        "numbers": feature("float32", 4),
        "text": feature("uint16", 9, vocabulary=7),
        "tokens": feature("uint16", 9, vocabulary=7, bos=6),
        "lists": feature("uint16", 9, 2, vocabulary=7),
        **dict.fromkeys(("label", "target", "weight", "scored"), feature("int64")),
    }
    assert augmenting.input_kinds(inputs) == {
        "image": "image",
        "sound": "sound",
        "numbers": "numbers",
        "text": "tokens",
        "tokens": augmenting.PREDICTED,
        **dict.fromkeys(("bytes", "film", "lists"), "array"),
    }


def test_what_mixes_examples_needs_one_input_and_others_their_own() -> None:
    flip, mixup = configs({"kind": "flip", "input": "a"}, {"kind": "mixup"})
    assert augmenting.input_of(0, flip, {"a": "image", "b": "numbers"}) == "a"
    assert augmenting.input_of(0, mixup, {"a": "image"}) == "a"
    with pytest.raises(Refused):
        augmenting.input_of(0, mixup, {"a": "image", "b": "numbers"})


def test_draws_are_those_of_the_docs() -> None:
    page, names = (ROOT / "docs/order.md").read_text(), {"hashlib": hashlib}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    draws, word = Draws(7, 2, np.array([0, 1], np.uint64), np.array([5, 5])), names["word"]
    for row, epoch in enumerate((0, 1)):
        words = [int(value) for value in draws.words(0, 2)[row]]
        assert words == [word(number, 7, 2, epoch, 5) for number in (0, 1)]  # type: ignore[operator]
        assert f"| 7 | 2 | {epoch} | 5 | {words[0]}, {words[1]} |" in page
    many = Draws(0, 0, np.zeros(200_000, np.uint64), np.arange(200_000))
    uniform, normal, below = many.uniform(0), many.normal(1, 3), many.integers(2, 7)
    assert abs(uniform.mean() - 0.5) < 0.003 and uniform.min() >= 0 and uniform.max() < 1
    assert abs(normal.mean()) < 0.005 and abs(normal.std() - 1) < 0.005 and abs(np.corrcoef(normal.T)[0, 1]) < 0.01
    assert abs(np.corrcoef(uniform[1:], uniform[:-1])[0, 1]) < 0.01, "rows are independent"
    assert (np.abs(np.bincount(below) / len(below) - 1 / 7) < 0.004).all()


@pytest.mark.parametrize(("axis", "mirrored"), [("horizontal", IMAGES[:, :, ::-1]), ("vertical", IMAGES[:, ::-1])])
def test_flip_mirrors_some(axis: str, mirrored: NDArray[Any]) -> None:
    made = changed("flip", axis=axis, share=0.5)[""]
    flipped = (made == mirrored).all(axis=(1, 2, 3))
    assert 0.25 * N < flipped.sum() < 0.75 * N
    np.testing.assert_array_equal(made[~flipped], IMAGES[~flipped])
    assert (changed("flip", axis=axis, share=1.0)[""] == mirrored).all()


@pytest.mark.parametrize("fill", ["zero", "edge"])
def test_crop_moves_by_whole_pixels(fill: str) -> None:
    made, seen = changed("crop", padding=2, fill=fill)[""], set()
    mode: Any = {"zero": "constant", "edge": "edge"}[fill]
    for before, after in zip(IMAGES, made, strict=True):
        padded = np.pad(before, ((2, 2), (2, 2), (0, 0)), mode)
        places = [(y, x) for y in range(5) for x in range(5) if (padded[y : y + 12, x : x + 10] == after).all()]
        assert len(places) == 1
        seen |= set(places)
    assert len(seen) > 12, "of 25 places"


def test_resized_crop_is_a_rectangle_at_the_size_of_the_image() -> None:
    np.testing.assert_array_equal(changed("resized_crop", area=[1, 1], ratio=[1, 1])[""], IMAGES)
    ramp = np.broadcast_to(np.arange(10, dtype=np.uint8)[:, None] * 20, (N, 12, 10, 3))
    augmenter = Augmenter(configs({"kind": "resized_crop"}), {"image": FEATURES["image"]}, {"image": ramp}, SEED)
    batch = {"image": ramp[None], "row": np.arange(N)[None]}
    rows = augmenter(batch, np.zeros((1, N), np.uint64))["image"][0, :, :, :, 0].astype(int)
    assert (np.diff(rows, axis=2) >= 0).all() and (rows == rows[:, :1]).all()
    spans = rows[:, 0, -1] - rows[:, 0, 0]
    assert spans.max() <= 180 and spans.min() > 0.5**0.5 * 0.75 * 180 * 0.6 and len(set(spans)) > 5


def test_colour_changes_each_image_by_its_factors() -> None:
    grey = np.full((1, N, 12, 10, 3), 100, np.uint8)
    augmenter = Augmenter(configs({"kind": "colour"}), {"image": FEATURES["image"]}, {"image": grey[0]}, SEED)
    made = augmenter({"image": grey, "row": np.arange(N)[None]}, np.zeros((1, N), np.uint64))["image"][0]
    assert (made == made[:, :1, :1, :1]).all(), "contrast and saturation leave a grey image"
    assert 80 <= made.min() < 90 and 110 < made.max() <= 120
    np.testing.assert_array_equal(changed("colour", brightness=0, contrast=0, saturation=0)[""], IMAGES)
    saturated = changed("colour", brightness=0, contrast=0, saturation=0.5)[""].astype(int)
    luma = np.array([0.299, 0.587, 0.114])
    unclipped = ((saturated > 0) & (saturated < 255)).all(axis=3)
    assert np.abs(saturated @ luma - IMAGES @ luma)[unclipped].max() <= 1, "the grey value stays"
    contrast = changed("colour", brightness=0, contrast=0.5, saturation=0)[""].astype(float)
    assert np.abs(contrast.mean(axis=(1, 2, 3)) - IMAGES.mean(axis=(1, 2, 3))).max() < 12


def test_rand_augment_takes_each_operation_in_both_directions_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: Counter[tuple[str, int]] = Counter()

    def recording(name: str) -> Any:
        def operation(image: Any, strength: float, direction: int) -> Any:
            taken[name, direction] += 1
            return image

        return operation

    monkeypatch.setattr(image_operations, "OPERATIONS", {name: recording(name) for name in OPERATIONS})
    draws = Draws(5, 0, np.zeros(2800, np.uint64), np.arange(2800))
    RandAugment(operations=2).change(np.zeros((2800, 2, 2, 3), np.uint8), draws, {})
    assert len(taken) == 28 and sum(taken.values()) == 5600
    assert min(taken.values()) > 140 and max(taken.values()) < 260


def test_rand_augment_has_the_operations_of_the_paper() -> None:
    assert len(OPERATIONS) == 14
    without_strength = {"auto_contrast", "equalize", "solarize", "posterize"}
    from PIL import Image

    dull = RNG.integers(50, 90, (40, 40, 3), np.uint8)
    image = Image.fromarray(dull)
    for name, operation in OPERATIONS.items():
        same = np.array_equal(np.asarray(operation(image, 0.0, 1)), dull)
        assert same or name in without_strength, name
        assert name == "identity" or not np.array_equal(np.asarray(operation(image, 1.0, 1)), dull), name
        grey = operation(Image.fromarray(IMAGES[0, :, :, 0]), 0.7, 1)
        assert (grey.mode, grey.size) == ("L", (10, 12)), name
    assert not np.array_equal(changed("rand_augment")[""], changed("rand_augment", operations=1)[""])


def test_cutout_covers_a_square() -> None:
    made = changed("cutout", size=5)[""]
    covered = (made == 128).all(axis=3) & (IMAGES != 128).any(axis=3)
    for image in covered:
        rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
        assert 3 <= len(rows) <= 5 and 3 <= len(columns) <= 5, "its centre is within the image"
    assert (covered.sum(axis=(1, 2)) >= 20).any()
    assert (made[~(made == 128).all(axis=3)] == IMAGES[~(made == 128).all(axis=3)]).all()


def test_noise_is_normal() -> None:
    config = configs({"kind": "noise", "deviation": 0.5})[0]
    augmenter = Augmenter([config], {"sound": FEATURES["sound"]}, {"sound": SOUNDS}, SEED)
    made = augmenter({"sound": SOUNDS[None], "row": np.arange(N)[None]}, np.zeros((1, N), np.uint64))["sound"][0]
    residual = made - SOUNDS
    assert abs(residual.mean()) < 0.02 and abs(residual.std() - 0.5) < 0.02


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_no_random_number_decides_two_things(kind: str) -> None:
    """What is made of one number twice is not independent: a cut far to the left would be far up as well."""
    taken: Counter[int] = Counter()

    class Counted(Draws):
        def words(self, number: int, count: int = 1) -> NDArray[np.uint64]:
            taken.update(range(number, number + count))
            return super().words(number, count)

    several = {"rand_augment": {"operations": 3}, "time_mask": {"spans": 3}, "band_mask": {"spans": 3}}
    config, name = of(kind, **several.get(kind, {}))
    draws = Counted(SEED, 0, np.zeros(N, np.uint64), np.arange(N))
    if config.mixes:
        config.mix(ARRAYS[name], ARRAYS[name][::-1], draws)
    else:
        config.change(ARRAYS[name], draws, FEATURES[name])
    assert taken and max(taken.values()) == 1, taken


def test_two_augmentations_of_a_kind_draw_apart() -> None:
    twice = configs({"kind": "flip", "share": 0.5}, {"kind": "flip", "share": 0.5})
    augmenter = Augmenter(twice, {"image": FEATURES["image"]}, {"image": IMAGES}, SEED)
    made = augmenter({"image": IMAGES[None], "row": np.arange(N)[None]}, np.zeros((1, N), np.uint64))["image"][0]
    back = (made == IMAGES).all(axis=(1, 2, 3))
    assert 0.25 * N < back.sum() < 0.75 * N, "mirrored by both, or by none"


def test_resized_crop_takes_a_share_of_each_side() -> None:
    """Of 12 x 10 pixels, 6 x 5, so that what differs by 20 from one to the next differs by 10 afterwards."""
    crop = configs({"kind": "resized_crop", "area": [0.25, 0.25], "ratio": [1, 1]})[0]
    for axis, side in ((1, 12), (2, 10)):
        ramp = np.expand_dims(np.arange(side, dtype=np.uint8) * 20, 1 if axis == 2 else (1, 2))
        draws = Draws(SEED, 0, np.zeros(N, np.uint64), np.arange(N))
        made = crop.change(np.broadcast_to(ramp, (N, 12, 10, 3)), draws, {})
        assert (np.median(np.diff(made.astype(int), axis=axis), axis=(1, 2, 3)) == 10).all()
        assert len(set(made.min(axis=(1, 2, 3)).tolist())) > 3, "at several places"


def test_contrast_is_about_the_mean_of_all_pixels_of_an_image() -> None:
    images = np.full((N, 12, 10, 3), 150, np.uint8)
    images[:, :3] = 50  # the mean is 125
    colour = configs({"kind": "colour", "brightness": 0, "contrast": 0.5, "saturation": 0})[0]
    made = colour.change(images, Draws(SEED, 0, np.zeros(N, np.uint64), np.arange(N)), {}).astype(float)
    dark, light = made[:, 0, 0, 0], made[:, -1, 0, 0]
    assert np.abs((125 - dark) / 3 - (light - 125)).max() < 0.7, "rounding"
    assert dark.min() < 30 and dark.max() > 70


def test_rand_augment_moves_by_a_share_of_the_side() -> None:
    from PIL import Image

    image = Image.fromarray(np.zeros((40, 20, 3), np.uint8))
    for name, axis, moved in (("move_x", 1, 9), ("move_y", 0, 18)):
        for direction in (1, -1):
            grey = (np.asarray(OPERATIONS[name](image, 1.0, direction)) == 128).all(axis=(1 - axis, 2))
            where = np.flatnonzero(grey)
            assert len(where) == moved and (where[-1] == len(grey) - 1) == (direction == 1), name


@pytest.mark.parametrize(("kind", "axis"), [("time_mask", 1), ("band_mask", 2)])
def test_masks_cover_spans(kind: str, axis: int) -> None:
    made = changed(kind, width=4, spans=1)[""]
    covered = (made != SOUNDS).any(axis=3 - axis)
    widths = set()
    for sound, spans in enumerate(covered):
        places = np.flatnonzero(spans)
        widths.add(len(places))
        if len(places):
            assert len(places) == places[-1] - places[0] + 1 <= 4
            inside = made[sound].take(places, axis - 1)
            expected = SOUNDS[sound].mean(axis=0) if axis == 1 else np.full(len(places), SOUNDS[sound].mean())
            np.testing.assert_allclose(inside, np.broadcast_to(expected, inside.shape), rtol=1e-4, atol=1e-6)
    assert widths == {0, 1, 2, 3, 4}


def test_token_dropout_makes_padding() -> None:
    made = changed("token_dropout", share=0.25)[""]
    dropped = made == 0
    assert abs(dropped.mean() - 0.25) < 0.03
    np.testing.assert_array_equal(made[~dropped], TEXTS[~dropped])


def test_token_dropout_of_words_leaves_what_is_after_the_last_one() -> None:
    unknown = 1
    words = np.where(np.arange(40) < 25, 7, 0).astype(np.uint16)[None].repeat(30, 0)
    draws = Draws(SEED, 0, np.zeros(30, np.uint64), np.arange(30))
    made = TokenDropout(share=0.5).change(words, draws, {"unknown": unknown})
    assert set(np.unique(made[:, :25])) == {unknown, 7} and not made[:, 25:].any()


def test_mixup_is_the_weighted_mean_of_two_changed_examples() -> None:
    features = {name: FEATURES[name] for name in ("image", "label")}
    flip, mix = {"kind": "flip"}, {"kind": "mixup", "alpha": 1.0}
    both, alone = (Augmenter(configs(*each), features, ARRAYS, SEED) for each in ((flip, mix), (flip,)))
    rows, epochs = np.arange(N)[None], np.full((1, N), 4, np.uint64)
    batch = {"image": IMAGES[None], "label": LABELS[None], "row": rows}
    mixed, flipped = both(batch, epochs), alone(batch, epochs)["image"][0].astype(np.float64)
    partners = permutation(np.arange(N), N, SEED, 4, "train/partners")
    shares = mixed[MIXED][0].astype(np.float64)
    expected = flipped + (flipped[partners] - flipped) * shares[:, None, None, None]
    assert np.abs(expected - mixed["image"][0]).max() <= 0.5 + 1e-3
    np.testing.assert_array_equal(mixed[OTHER_LABEL][0], LABELS[partners])
    np.testing.assert_array_equal(mixed["label"][0], LABELS)
    assert 0 <= shares.min() < 0.1 and 0.4 < shares.max() <= 0.5 and abs(shares.mean() - 0.25) < 0.06


def test_targets_are_mixed_as_numbers() -> None:
    targets = RNG.normal(size=(N, 2)).astype(np.float32)
    arrays = {"image": IMAGES, "target": targets}
    features = {"image": FEATURES["image"], "target": {"dtype": "float32", "shape": [2]}}
    augmenter = Augmenter(configs({"kind": "cutmix"}), features, arrays, SEED)
    batch = {"image": IMAGES[None], "target": targets[None], "row": np.arange(N)[None]}
    made = augmenter(batch, np.zeros((1, N), np.uint64))
    others = targets[permutation(np.arange(N), N, SEED, 0, "train/partners")]
    from_other = (made["image"][0] != IMAGES).any(axis=3).mean(axis=(1, 2))
    np.testing.assert_allclose(
        made["target"][0],
        targets + (others - targets) * from_other[:, None],
        atol=0.02 * np.abs(others - targets).max(),
    )
    assert augmenter.layout({"target": ((2,), np.dtype(np.uint8))})["target"] == ((2,), np.dtype(np.float32))


@pytest.mark.parametrize("target", ["label", "target"])
def test_the_other_example_counts_with_its_own_weight(target: str) -> None:
    weights = (1 + np.arange(N)).astype(np.float32)
    arrays = {"image": IMAGES, "label": LABELS, "weight": weights} if target == "label" else None
    targets = RNG.normal(size=N).astype(np.float32)
    arrays = arrays or {"image": IMAGES, "target": targets, "weight": weights}
    features = {"image": FEATURES["image"], target: FEATURES.get(target, {"dtype": "float32", "shape": []})}
    features["weight"] = {"dtype": "float32", "shape": []}
    augmenter = Augmenter(configs({"kind": "mixup", "alpha": 1.0}), features, arrays, SEED)
    fed = np.where(np.arange(N) < N - 3, weights, 0).astype(np.float32)  # the last three come after the last epoch
    batch = {**arrays, "weight": fed, "row": np.arange(N)}
    made = {
        name: values[0]
        for name, values in augmenter(
            {name: values[None] for name, values in batch.items()}, np.zeros((1, N), np.uint64)
        ).items()
    }
    others = weights[permutation(np.arange(N), N, SEED, 0, "train/partners")] * (fed > 0)
    layout = augmenter.layout({name: (values.shape[1:], values.dtype) for name, values in arrays.items()})
    assert {name: (values.shape[1:], values.dtype) for name, values in made.items() if name != "row"} == layout
    if target == "label":
        np.testing.assert_array_equal(made["weight.other"], others)
        np.testing.assert_array_equal(made["weight"], fed)
    else:
        alone = Augmenter(
            configs({"kind": "mixup", "alpha": 1.0}),
            {"image": features["image"], "label": FEATURES["label"]},
            {"image": IMAGES, "label": LABELS},
            SEED,
        )
        shares = alone(
            {"image": IMAGES[None], "label": LABELS[None], "row": np.arange(N)[None]}, np.zeros((1, N), np.uint64)
        )
        np.testing.assert_allclose(made["weight"], fed + (others - fed) * shares[MIXED][0], rtol=1e-6)
    assert not made["weight"][-3:].any()


def test_cutmix_counts_labels_by_area() -> None:
    made = changed("cutmix")
    partners = permutation(np.arange(N), N, SEED, 0, "train/partners")
    changed_pixels = (made[""] != IMAGES).any(axis=3)
    others = partners != np.arange(N)
    np.testing.assert_allclose(changed_pixels.mean(axis=(1, 2))[others], made[MIXED][others], atol=0.02)
    assert (made[""][changed_pixels] == IMAGES[partners][changed_pixels]).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_a_mixture_counts_both_labels(weighted: bool) -> None:
    import tensorflow as tf

    from tasks.training.engines.objectives import Classification

    logits = RNG.normal(size=(4, 3)).astype(np.float32)
    own, other, share = np.array([0, 1, 2, 0]), np.array([1, 1, 0, 2]), np.array([0.1, 0.5, 0.3, 0.0], np.float32)
    weight, of_class = np.array([1, 1, 0, 2], np.float32), np.array([1.0, 3.0, 0.5], np.float32)
    batch = {"label": own, "weight": weight, OTHER_LABEL: other, MIXED: share}
    of_other = weight
    if weighted:
        of_other = batch[OTHER_WEIGHT] = np.array([4, 1, 0, 3], np.float32)
    objective = Classification("cross_entropy", 0.1, of_class)
    tensors = {name: tf.constant(values) for name, values in batch.items()}
    sums = {name: float(value) for name, value in objective(tensors, tf.constant(logits)).sums().items()}
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def loss(label: NDArray[Any]) -> NDArray[Any]:
        return -0.9 * logs[np.arange(4), label] - 0.1 * logs.mean(axis=1)

    own_weight, other_weight = weight * of_class[own] * (1 - share), of_other * of_class[other] * share
    assert sums["loss"] == pytest.approx((own_weight * loss(own) + other_weight * loss(other)).sum(), rel=1e-5)
    assert sums["weight"] == pytest.approx((own_weight + other_weight).sum(), rel=1e-6)
    right = logits.argmax(axis=1) == own
    assert sums["seen"] == 3 and sums["accuracy"] == right[weight > 0].sum()


SOUND_AND_IMAGE = {"image": "image", "sound": "sound"}


@pytest.mark.parametrize(
    ("config", "kinds", "says"),
    [
        ({"kind": "flip"}, {"numbers": "numbers"}, "changes an input of kind image, not numbers"),
        ({"kind": "token_dropout"}, {"tokens": "tokens to predict"}, "not tokens \\(tokens to predict\\)"),
        ({"kind": "noise"}, SOUND_AND_IMAGE, "several inputs of kind image or sound; name one of image, sound"),
        ({"kind": "flip", "input": "sound"}, SOUND_AND_IMAGE, "train.augment.1.input: sound; must be an input of kind"),
        ({"kind": "mixup", "input": "image"}, SOUND_AND_IMAGE, "there are several inputs: image, sound"),
    ],
)
def test_what_does_not_fit_is_refused(config: dict[str, Any], kinds: dict[str, str], says: str) -> None:
    with pytest.raises(Refused, match=says):
        augmenting.input_of(1, configs(config)[0], kinds)


def test_mixing_is_last_and_bounds_are_in_order() -> None:
    base = {"name": "a", "train": {"steps": 1}}
    for wrong, says in (
        ([{"kind": "mixup"}, {"kind": "flip"}], "name it last"),
        ([{"kind": "mixup"}, {"kind": "cutmix"}], "no other one that mixes"),
        ([{"kind": "resized_crop", "area": [0.9, 0.1]}], "the smallest comes first"),
        ([{"kind": "resized_crop", "area": [0.9, 1.1]}], "use at most 1"),
    ):
        with pytest.raises(ValidationError, match=says):
            Config.model_validate({**base, "train": {"steps": 1, "augment": wrong}})
