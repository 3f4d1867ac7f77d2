"""`log_mel`: files of sounds, as soundfile decodes them, to the logarithm of their mel spectrogram."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from .values import Apply, Unusable, Values

FLOOR, RANGE = 1e-10, 8.0
"""The smallest power, and the decades below a sound's loudest place that are kept."""


def log_mel(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to float32 [rows, frames, mels]; a missing sound is silence.

    Channels are averaged; the sound is cut or padded with silence to `seconds`, and resampled to `rate`. Values are
    scaled as in Whisper (Radford et al., arXiv 2212.04356): (log10(power) + 4) / 4, nothing more than 8 below the
    highest logarithm.
    """
    frames, mels = state["shape"]
    window, hop, samples = state["window"], state["hop"], state["samples"]
    size = 1 << (window - 1).bit_length()
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    filters = mel_filters(mels, size, state["rate"])

    def spectrogram(sound: NDArray[np.float64]) -> NDArray[np.float64]:
        windows = np.lib.stride_tricks.sliding_window_view(sound, window)[::hop] * hann
        power = np.abs(np.fft.rfft(windows, size)) ** 2
        # Not a matrix product: its last bits would depend on the number of threads.
        bands = [(power[:, low : low + len(weights)] * weights).sum(axis=1) for low, weights in filters]
        logarithm = np.log10(np.maximum(np.stack(bands, axis=1), FLOOR))
        return (np.maximum(logarithm, logarithm.max() - RANGE) + 4) / 4

    def apply(values: Values) -> NDArray[np.float32]:
        result = np.empty((len(values), frames, mels), np.float32)
        for row, payload in enumerate(values):
            sound = np.zeros(samples) if not payload else decoded(row, payload, state["seconds"], samples)
            result[row] = spectrogram(sound)
        return result

    return apply


def decoded(row: int, payload: bytes, seconds: float, samples: int) -> NDArray[np.float64]:
    """Return the first `seconds` of a sound, resampled to `samples` values in [-1, 1]."""
    rule = "must be a whole sound file (WAV, FLAC, ...)"
    try:
        with Sound(payload) as file:
            length = max(1, round(seconds * file.samplerate))
            expected = 1 if file.length is None else min(length, max(1, file.length))
            sound = file.read(length, dtype="float64", always_2d=True).mean(axis=1)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        reason = getattr(error, "error_string", str(error)).rstrip(".")  # the whole message has an address in memory
        raise Unusable(row, f"{len(payload)} bytes, {reason}", rule) from error
    if len(sound) < expected:
        raise Unusable(row, f"{len(sound)} of {expected} samples", rule)
    padded = np.zeros(length)
    padded[: len(sound)] = np.nan_to_num(sound)
    return resampled(padded, samples)


def resampled(sound: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Return a sound with another number of samples, by its Fourier transform; frequencies that it lacks are zero."""
    if len(sound) == samples:
        return sound
    spectrum = np.fft.rfft(sound)
    kept = np.zeros(samples // 2 + 1, complex)
    shared = min(len(sound), samples)
    kept[: (shared + 1) // 2] = spectrum[: (shared + 1) // 2]  # without the Nyquist frequency, whose phase is not known
    return np.fft.irfft(kept, samples) * (samples / len(sound))


def mel_filters(mels: int, size: int, rate: int) -> list[tuple[int, NDArray[np.float64]]]:
    """Return first bin and weights of triangular filters, evenly spaced in mel: 2595 log10(1 + f / 700).

    A filter between two bins has the nearest one.
    """
    frequencies = np.arange(size // 2 + 1) * (rate / size)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), mels + 2) / 2595) - 1)
    filters = []
    for low, peak, high in zip(edges, edges[1:], edges[2:], strict=False):
        weights = np.minimum((frequencies - low) / (peak - low), (high - frequencies) / (high - peak))
        inside = np.flatnonzero(weights > 0)
        if not inside.size:
            filters.append((int(np.abs(frequencies - peak).argmin()), np.ones(1)))
            continue
        filters.append((int(inside[0]), weights[inside]))
    return filters


ENDLESS = 0xFFFFFFFF
"""The size of a part of a WAV that goes on to the end of the file."""
UNKNOWN = 1 << 62
"""From this number of frames on, soundfile says that the header has none."""


class Sound(soundfile.SoundFile):
    """A sound that is read from its beginning, once.

    Raises `soundfile.LibsndfileError` for what is no sound.
    """

    def __init__(self, payload: bytes) -> None:
        super().__init__(io.BytesIO(sized(payload)))

    def seekable(self) -> bool:
        """Deny it: soundfile would seek after each part that it reads, which fails at an end that is not known."""
        return False

    @property
    def length(self) -> int | None:
        """Frames by the header; None where a program that wrote into a pipe could not know them."""
        return int(self.frames) if self.frames < UNKNOWN else None

    def counted(self, block: int) -> int:
        """Return how many frames there are in truth, decoded in blocks of so many."""
        frames = 0
        while part := len(self.read(block)):
            frames += part
        return frames


def sized(payload: bytes) -> bytes:
    """Return a sound, a WAV written into a pipe with 0 for the unknown size of its samples as one that goes on to its
    end. A WAV without samples may have other parts behind them, which its whole size then covers."""
    if payload[:4] != b"RIFF" or payload[8:12] != b"WAVE":
        return payload
    begin = 12
    while begin + 8 <= len(payload):
        name, size = struct.unpack_from("<4sI", payload, begin)
        begin += 8
        if name == b"data":
            covered = 8 + struct.unpack_from("<I", payload, 4)[0]
            return payload if size or begin < covered <= len(payload) else _endless(payload, begin)
        begin += size + size % 2
    return payload


def _endless(payload: bytes, begin: int) -> bytes:
    size = struct.pack("<I", ENDLESS)
    return payload[:4] + size + payload[8 : begin - 4] + size + payload[begin:]
