"""An event file of TensorBoard: records of protocol buffers, written without TensorFlow.

A folder has one file, whoever writes: TensorBoard's data server and its reader in Python show other points where two
files of a folder have the same steps, as those of a training that was resumed would.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

FILES = "events.out.tfevents.*"
VERSION = "brain.Event:2"


class EventFile:
    """Takes points of metrics, histograms, images and texts; a name has one point at a step, the first one.

    What a folder has already is copied into the new file, up to the first record that is damaged or not whole.
    """

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        """Begin a file; `anew` leaves out what the folder has."""
        from tensorboard.compat.proto.event_pb2 import Event

        folder.mkdir(parents=True, exist_ok=True)
        old, draft = sorted(folder.glob(FILES)), folder / "draft"
        self._event, self._written = Event, set[tuple[str, int]]()
        self._file = open(draft, "wb")  # noqa: SIM115 - closed by close
        self._write(Event(wall_time=time.time(), file_version=VERSION))
        for file in () if anew else old:
            for content in records(file.read_bytes()):
                self._take(Event.FromString(content))
        self._file.flush()
        path = folder / f"events.out.tfevents.{time.time_ns()}.millrace"
        os.rename(draft, path)
        for file in old:
            file.unlink()

    def scalars(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a point of curves."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        self._add(step, (value for name, each in metrics.items() for value in scalar_pb(name, each).value))

    def histograms(self, step: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the distributions of the values of arrays."""
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        each = (histogram_pb(name, np.asarray(values, np.float64)) for name, values in arrays.items())
        self._add(step, (value for summary in each for value in summary.value))

    def images(self, step: int, name: str, files: list[bytes], width: int, height: int, about: str) -> None:
        """Write images, as PNG files."""
        from tensorboard.plugins.image import metadata

        texts = [str(width).encode(), str(height).encode(), *files]
        self._add(step, [_value(name, texts, metadata.create_summary_metadata(display_name=None, description=about))])

    def text(self, step: int, name: str, markdown: str) -> None:
        """Write a text."""
        from tensorboard.plugins.text import metadata

        described = metadata.create_summary_metadata(display_name=None, description="")
        self._add(step, [_value(name, [markdown.encode()], described)])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _add(self, step: int, values: Iterable[Summary.Value]) -> None:
        event = self._event(wall_time=time.time(), step=step)
        event.summary.value.extend(values)
        self._take(event)
        self._file.flush()

    def _take(self, event: Event) -> None:
        """Write what is new of an event."""
        new = [value for value in event.summary.value if (value.tag, event.step) not in self._written]
        if new:
            self._written |= {(value.tag, event.step) for value in new}
            content = self._event(wall_time=event.wall_time, step=event.step)
            content.summary.value.extend(new)
            self._write(content)

    def _write(self, event: Event) -> None:
        content = event.SerializeToString()
        size = struct.pack("<Q", len(content))
        self._file.write(size + _checksum(size) + content + _checksum(content))


def records(content: bytes) -> Iterator[bytes]:
    """Yield the records of a file of records, up to one that is damaged or not whole."""
    begin = 0
    while len(head := content[begin : begin + 12]) == 12:
        end = begin + 12 + int(struct.unpack("<Q", head[:8])[0])
        record = content[begin + 12 : end]
        if head[8:] != _checksum(head[:8]) or content[end : end + 4] != _checksum(record):
            return
        yield record
        begin = end + 4


def _checksum(content: bytes) -> bytes:
    """Return the masked CRC-32C of a record."""
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _value(name: str, texts: list[bytes], metadata: Any) -> Summary.Value:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.util.tensor_util import make_tensor_proto

    return Summary.Value(tag=name, tensor=make_tensor_proto(texts), metadata=metadata)
