"""Sizes of images and sounds, from which those of a snapshot follow."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from tasks.errors import Refused
from tasks.guess.found import SUPPORTED
from tasks.reader.decoding import BROKEN, DEEP, deep_levels
from tasks.records.kinds.audio import BLOCK
from tasks.snapshots.transforms.image import range_of
from tasks.snapshots.transforms.samples import NumberSample

SIDES = (8, 64)
"""Smallest and largest side of the snapshot's images, in pixels."""
RATE, SECONDS = 16_000, 10.0
"""Samples per second, and seconds, at most."""
FRAMES, HOP, WINDOW = 100, 0.01, 0.025
"""Frames of a sound, about, at most; seconds between them, and of each, at least."""
MELS = 40
FEW_LEVELS = 128
"""Levels of 256 below which the range of levels is chosen by the data."""
COVERED = 0.95
"""Share of the sounds that are not cut."""


def image_shape(payloads: Iterable[bytes]) -> tuple[tuple[int, int, int], str]:
    """Return (height, width, channels) for a snapshot, sides at most 64 and a multiple of 4, and the images' sizes."""
    sides, grey = [], True
    for payload in payloads:
        try:
            with Image.open(io.BytesIO(payload)) as image:
                sides.append((image.height, image.width))
                grey = grey and image.mode in ("1", "L", "LA", *DEEP)
        except BROKEN:
            continue  # `convert` will name it
    if not sides:
        raise Refused("PATH", "no image that can be read", SUPPORTED, "see what these files are")
    height, width = np.median(np.array(sides), axis=0)
    scale = min(1.0, SIDES[1] / max(height, width))
    fitted = [max(SIDES[0], round(side * scale / 4) * 4) for side in (height, width)]
    low, high = min(sides), max(sides)
    sizes = f"{low[0]} x {low[1]}" if low == high else f"{low[0]} x {low[1]} to {high[0]} x {high[1]}"
    return (fitted[0], fitted[1], 1 if grey else 3), sizes


def few_levels(payloads: Iterable[bytes]) -> str:
    """Return what is seen of grey images of more than 8 bits, where too few levels would be left of them without a
    range (`snapshot.range`), in words; else nothing."""
    sample, whole = NumberSample(), True
    for number, payload in enumerate(payloads):
        try:
            with Image.open(io.BytesIO(payload)) as image:
                whole = whole and image.mode != "F"
            for levels in deep_levels(payload):
                rows = np.arange(len(levels), dtype=np.int64) + number * (1 << 32)
                sample.add(levels.astype(np.float32), rows)
        except BROKEN:
            continue  # `convert` will name it
    if (found := range_of(sample)) is None:
        return ""
    low, high = found
    step, most = (256, 65_535) if whole else (1, 255)
    kept = int(min(max(high, 0), most) // step - min(max(low, 0), most) // step) + 1
    return f"grey levels {low:g} to {high:g}, of which full would make {kept} of 256" if kept < FEW_LEVELS else ""


def log_mel(payloads: Iterable[bytes]) -> tuple[dict[str, Any], str]:
    """Return the transform that fits sounds, and what they are: their rates and lengths."""
    from tasks.reader.sounds import Sound

    rates, lengths = Counter[int](), []
    for payload in payloads:
        try:
            with Sound(payload) as sound:
                frames, rate = sound.length or sound.counted(BLOCK), sound.samplerate
        except (RuntimeError, ValueError, TypeError, OSError):
            continue  # `convert` will name it
        if frames:
            rates[rate] += 1
            lengths.append(frames / rate)
    if not rates:
        raise Refused("PATH", "no sound that can be read", SUPPORTED, "see what these files are")
    rate = min(RATE, rates.most_common(1)[0][0])
    covered = float(np.quantile(lengths, COVERED))
    seconds = min(SECONDS, float(np.ceil(covered * 10) / 10) if covered > 0.1 else round(covered, 3))
    hop = max(HOP, round(seconds / FRAMES, 3))
    window = min(max(WINDOW, round(2 * hop, 3)), seconds)
    cut = sum(length > seconds for length in lengths)
    ends = dict.fromkeys(f"{length:.2g}" for length in (min(lengths), max(lengths)))
    said = f"{' to '.join(ends)} s at {', '.join(f'{each:,}' for each in sorted(rates))} Hz"
    said += f"; {cut / len(lengths):.0%} of them are cut at {seconds:g} s" if cut else ""
    return {"kind": "log_mel", "rate": rate, "seconds": seconds, "window": window, "hop": hop, "mels": MELS}, said
