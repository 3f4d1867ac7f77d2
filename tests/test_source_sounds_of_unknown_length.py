"""A sound whose header does not say how long it is, as programs write into a pipe, is read to its end everywhere; one
that decodes to nothing is bad."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from tasks.guess import examples
from tasks.reader import Unusable
from tasks.records.column_types.media import Audio, decoded
from tasks.snapshots.transforms.media import LogMel
from tasks.sources.features import DTYPES, Feature
from tests.support.tables import FOLDER

AUDIO = Feature("audio", DTYPES["audio"])
TONE = np.sin(np.arange(6000) * 0.1) / 2


def encoded(form: str, tone: np.ndarray = TONE) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, tone, 8000, format=form)
    return buffer.getvalue()


def wav(whole: int, samples: int, behind: bytes = b"") -> bytes:
    """A WAV with these sizes in its header."""
    payload = encoded("WAV")
    assert payload[36:40] == b"data"
    return payload[:4] + struct.pack("<I", whole) + payload[8:40] + struct.pack("<I", samples) + payload[44:] + behind


def flac() -> bytes:
    """A FLAC whose header has 0 for the number of samples, which has 36 bits."""
    payload = encoded("FLAC")
    return payload[:21] + bytes([payload[21] & 0xF0]) + bytes(4) + payload[26:]


def spectrogram(payload: bytes) -> Any:
    from tasks.reader.log_mel import log_mel

    config = LogMel(rate=8000, seconds=1.0)
    return log_mel(config.fitter("audio", AUDIO, FOLDER).fitted().state, FOLDER)([payload])


@pytest.mark.parametrize(
    ("payload", "plain"),
    [
        (wav(0, 0), "WAV"),
        (wav(36, 0), "WAV"),  # as Python's `wave`, which counts what is there when it begins
        (wav(0xFFFFFFFF, 0), "WAV"),
        (wav(0xFFFFFFFF, 0xFFFFFFFF), "WAV"),  # as FFmpeg
        (flac(), "FLAC"),
    ],
    ids=("zeros", "wave", "endless", "ffmpeg", "flac"),
)
def test_it_is_read_to_its_end(payload: bytes, plain: str) -> None:
    assert decoded(payload) == (6000, 8000)
    np.testing.assert_array_equal(spectrogram(payload), spectrogram(encoded(plain)))
    transform, said = examples.log_mel([payload])
    assert (transform["seconds"], said) == (0.8, "0.75 s at 8,000 Hz")


@pytest.mark.parametrize(
    "payload",
    [wav(44 + 12000 - 8, 0), encoded("WAV", TONE[:0]), encoded("WAV")[:44]],
    ids=("other parts behind", "empty", "header alone"),
)
def test_what_decodes_to_nothing_is_bad(payload: bytes) -> None:
    typed = Audio(AUDIO).typed(pa.array([payload]))
    assert list(typed.bad) == [0]
    with pytest.raises(Unusable, match="whole sound file"):
        spectrogram(payload)
