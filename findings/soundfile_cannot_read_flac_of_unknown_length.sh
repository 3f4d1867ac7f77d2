#!/bin/sh
# soundfile 0.14.0 with libsndfile 1.2.2, Python 3.11, Linux.
#
# Behaviour: of a FLAC file whose header has 0 as the number of samples, which means "unknown" and is what encoders write
# into a pipe, `soundfile.info` says 9,223,372,036,854,775,807 frames, and `read` raises an error: "array is too big".
# Reading block by block begins, and then raises "Internal psf_fseek() failed" in the place of the last block, so that the
# end of the sound is lost.
# What one would guess: it is read to its end, or refused when it is opened. A WAV of unknown length (0xFFFFFFFF) is read
# to its end by the same function.
# What works instead: write the number into the header before (the low 36 bits of the bytes 21 to 25).
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check soundfile==0.14.0 numpy==2.4.6
cat > "$folder/read.py" <<'SCRIPT'
import io

import numpy as np
import soundfile

TONE = (np.sin(np.arange(8000) / 10) / 2).astype("float32")


def flac(samples):
    """The tone as FLAC, with this number of samples in its header."""
    file = io.BytesIO()
    soundfile.write(file, TONE, 8000, format="FLAC")
    content = bytearray(file.getvalue())
    content[21:26] = (int.from_bytes(content[21:26], "big") >> 36 << 36 | samples).to_bytes(5, "big")
    return io.BytesIO(bytes(content))


def wav():
    file = io.BytesIO()
    soundfile.write(file, TONE, 8000, format="WAV", subtype="PCM_16")
    content = bytearray(file.getvalue())
    at = content.index(b"data") + 4
    content[at : at + 4] = b"\xff\xff\xff\xff"
    return io.BytesIO(bytes(content))


def said(action):
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def in_blocks():
    read = 0
    with soundfile.SoundFile(flac(0)) as sound:
        try:
            while count := len(sound.read(1000)):
                read += count
        except Exception as error:
            return read, f"{type(error).__name__}: {error}"
    return read, "its end"


frames, whole, (blocks, then) = soundfile.info(flac(0)).frames, said(lambda: len(soundfile.read(flac(0))[0])), in_blocks()
known, of_wav = len(soundfile.read(flac(8000))[0]), len(soundfile.read(wav())[0])
print(f"soundfile {soundfile.__version__}, {soundfile.__libsndfile_version__}: a FLAC of 8000 frames, of unknown length")
print(f"  info: {frames:,} frames; read: {whole}")
print(f"  in blocks of 1000: {blocks} frames, then {then}")
print(f"  with the number in the header: {known} frames; a WAV of unknown length: {of_wav} frames")
raise SystemExit(not (frames == 2**63 - 1 and "too big" in str(whole) and known == of_wav == 8000 and "seek" in then))
SCRIPT
"$folder/venv/bin/python" "$folder/read.py"
# Output seen:
#   soundfile 0.14.0, 1.2.2: a FLAC of 8000 frames, of unknown length
#     info: 9,223,372,036,854,775,807 frames; read: ValueError: array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.
#     in blocks of 1000: 7000 frames, then LibsndfileError: Internal psf_fseek() failed.
#     with the number in the header: 8000 frames; a WAV of unknown length: 8000 frames
