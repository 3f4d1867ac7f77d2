"""Sounds: the bytes of a file, decoded once to see that they are whole; a missing one has no bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.records.kinds import State, Typed, merge_by_key, text
from tasks.sources.encoding import Encoded, bytes_entry, values_of
from tasks.sources.features import Feature

TYPE = pa.large_binary()
BLOCK = 1 << 16
"""Frames that are decoded at a time."""


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept the bytes of whole sound files."""
    if not (pa.types.is_binary(raw.type) or pa.types.is_large_binary(raw.type) or pa.types.is_null(raw.type)):
        values = pa.array([b""] * len(raw), TYPE)
        bad = dict.fromkeys(range(len(raw)), f"{raw.type} is not a sound")
        return Typed(values, bad, _measured([(0, 0)] * len(raw)))
    values, bad, measured = raw.cast(TYPE).fill_null(b""), {}, []
    given = np.asarray(raw.is_valid())
    for row, payload in enumerate(values_of(values)):
        measured.append((0, 0))
        if not given[row]:
            continue
        try:
            measured[-1] = decoded(payload)
        except ValueError as reason:
            bad[row] = str(reason)
    return Typed(values, bad, _measured(measured))


def decoded(payload: bytes) -> tuple[int, int]:
    """Return frames and sampling rate of a sound; raises `ValueError` where it is not a whole file, or an empty one."""
    import soundfile

    from tasks.reader.sounds import Sound

    try:
        with Sound(payload) as sound:
            frames = sound.counted(BLOCK)
            if sound.length not in (None, frames):
                raise ValueError(f"{frames} frames, and its header says {sound.length}")
            if not frames:
                raise ValueError("no samples")
            return frames, sound.samplerate
    except soundfile.LibsndfileError as error:
        raise ValueError(f"not a sound: {error.error_string}") from None


def _measured(sounds: list[tuple[int, int]]) -> dict[str, pa.Array]:
    frames, rates = zip(*sounds, strict=True) if sounds else ((), ())
    return {"frames": pa.array(frames, pa.int64()), "rate": pa.array(rates, pa.int64())}


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which sounds have no bytes."""
    return text.missing(feature, values)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return a `bytes_list` of one sound."""
    return bytes_entry(name, values)


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return count, bytes, and for each sampling rate the number of sounds and of frames."""
    frames, rates = (np.asarray(measured[name]) for name in ("frames", "rate"))
    by_rate = {
        str(rate): {"sounds": int((rates == rate).sum()), "frames": int(frames[rates == rate].sum())}
        for rate in np.unique(rates[rates > 0]).tolist()
    }
    absent = int(np.asarray(missing(feature, values)).sum())
    return {"missing": absent, **text.sizes(values), "rates": by_rate}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the state, with seconds in place of frames."""
    rates = {
        rate: {"sounds": of_rate["sounds"], "seconds": of_rate["frames"] / int(rate)}
        for rate, of_rate in sorted(state["rates"].items())
    }
    return {**text.summary(feature, state), "rates": rates}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `Text`, as tensorflow-datasets would decode the sound."""
    return text.connector(feature)
