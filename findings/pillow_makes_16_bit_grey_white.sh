#!/bin/sh
# Pillow 13.0.0, Python 3.11, Linux.
#
# Behaviour: a PNG of 16-bit grey, whose levels go from 0 to 65535, becomes white nearly everywhere by
# `convert("RGBA")` (or "RGB", "L"): each level above 255 is 255. A transparent level of it (the chunk tRNS) is in
# `info["transparency"]`, and stays opaque.
# What one would guess: a level becomes its upper byte, as those of 16-bit RGB do when such a file is read, and the
# transparent one has an alpha of 0, as in a PNG of 8-bit grey. Cause: the mode "I;16" holds numbers, and a conversion
# clips them to a byte.
# What works instead: NumPy on the levels of the opened image, and the transparent one compared there.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pillow==13.0.0 numpy==2.4.6
cat > "$folder/convert.py" <<'SCRIPT'
import io
import struct
import zlib

import numpy as np
import PIL
from PIL import Image

LEVELS = [0, 100, 1000, 30000, 65535]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def opened(bits, transparent):
    """One row of these levels, 16-bit, or their upper bytes."""
    shift, code = (0, ">H") if bits == 16 else (8, ">B")
    row = b"\0" + b"".join(struct.pack(code, level >> shift) for level in LEVELS)
    header = struct.pack(">IIBBBBB", len(LEVELS), 1, bits, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"tRNS", struct.pack(">H", transparent >> shift))
    return Image.open(io.BytesIO(b"\x89PNG\r\n\x1a\n" + chunks + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")))


def converted(bits):
    pixels = np.asarray(opened(bits, 30000).convert("RGBA"))[0]
    return pixels[:, 0].tolist(), pixels[:, 3].tolist()


eight, sixteen = converted(8), converted(16)
levels = np.asarray(opened(16, 30000))[0]
right = [level >> 8 for level in levels.tolist()], [255 * (level != 30000) for level in levels.tolist()]
print(f"Pillow {PIL.__version__}: levels {LEVELS}, of which 30000 is transparent, by convert('RGBA')")
print(f"  of  8 bits: grey {eight[0]}, alpha {eight[1]}")
print(f"  of 16 bits: grey {sixteen[0]}, alpha {sixteen[1]}")
print(f"  by NumPy:   grey {right[0]}, alpha {right[1]}")
raise SystemExit(not (eight[1][3] == 0 and sixteen == ([0, 100, 255, 255, 255], [255] * 5)))
SCRIPT
"$folder/venv/bin/python" "$folder/convert.py"
# Output seen:
#   Pillow 13.0.0: levels [0, 100, 1000, 30000, 65535], of which 30000 is transparent, by convert('RGBA')
#     of  8 bits: grey [0, 0, 3, 117, 255], alpha [255, 255, 255, 0, 255]
#     of 16 bits: grey [0, 100, 255, 255, 255], alpha [255, 255, 255, 255, 255]
#     by NumPy:   grey [0, 0, 3, 117, 255], alpha [255, 255, 255, 0, 255]
