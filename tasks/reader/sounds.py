"""Files of sounds as soundfile decodes them, those included whose header does not say how long they are."""

from __future__ import annotations

import io
import struct

import soundfile

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
