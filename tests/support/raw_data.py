"""Raw data, written to files as people have it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

COUNT = 300
WORDS = ["rain falls gently upon every mountain", "quiet rivers carry leaves to the sea", "no one was there to see it"]
SIDE = 16
RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 200, 40), (20, 40, 210), (255, 255, 255)
STORED = {  # how the pixels lie in a file whose EXIF says that a viewer must turn them
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def pictures(root: Path, count: int = 24, side: int = 20) -> Path:
    random = np.random.default_rng(0)
    for number in range(count):
        path = root / ("round", "square")[number % 2] / f"{number}.{('png', 'JPG')[number % 3 == 0]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 120, (side + number % 4, 30, 3), np.uint8) + np.uint8(120 * (number % 2))
        Image.fromarray(pixels).save(path)
    return root


def texts(root: Path, count: int = 12, words: int = 60) -> Path:
    """Words drawn at random: a model can learn their letters alone."""
    random = np.random.default_rng(0)
    known = np.array(["rain", "falls", "gently", "upon", "every", "mountain", "quiet", "rivers", "carry", "leaves"])
    for number in range(count):
        path = root / f"part{number % 3}/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Chapter {number}\n\n" + " ".join(random.choice(known, words)) + "\n")
    (root / "table.csv").write_text("a,b\n1,2\n")
    return root


def png(number: int) -> bytes:
    payload = io.BytesIO()
    Image.fromarray(np.full((3, 3), number % 256, np.uint8)).save(payload, format="PNG")
    return payload.getvalue()


def rows(count: int = COUNT) -> list[dict[str, Any]]:
    """Rows with a column of each kind; the label can be told from `height`."""
    random = np.random.default_rng(0)
    return [
        {
            "id": number + 1,
            "height": round(float(random.normal(number % 3)), 3) if number % 5 else None,
            "city": ["Rome", "Oslo", "Lima"][number % 3],
            "when": f"2024-{number % 12 + 1:02d}-03T10:00:00",
            "note": f"{WORDS[number % 3]} {number}",
            "name": f"Ann{number}",
            "same": "x",
            "species": ["cat", "dog", "owl"][number % 3],
        }
        for number in range(count)
    ]


def write_csv(path: Path, table: list[dict[str, Any]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    lines = [delimiter.join(table[0])]
    lines += [delimiter.join("" if value is None else str(value) for value in row.values()) for row in table]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


ODD = {
    "empty.txt": b"",
    "bom.txt": b"\xef\xbb\xbfmarked",
    "lines.txt": b"a\r\nb\rc\nd\x0b\x0c\x00\x1a end without a newline",
    "signs.txt": "naïve café, \u2028, \U0001f600, \ufffd, \ufeff, e\u0301 <bos> <|endoftext|>".encode(),
}


def flag() -> Image.Image:
    """Four quarters of four colours: neither turned nor mirrored it looks the same."""
    pixels = np.empty((SIDE, SIDE, 3), np.uint8)
    half = SIDE // 2
    pixels[:half, :half], pixels[:half, half:], pixels[half:, :half], pixels[half:, half:] = RED, GREEN, BLUE, WHITE
    return Image.fromarray(pixels)


def kinds() -> dict[str, tuple[Image.Image, dict]]:
    """The same flag by file name, in every way that such files come."""
    colour = flag()
    clear = colour.convert("RGBA")
    pixels = np.array(clear)
    pixels[SIDE // 2 :, SIDE // 2 :] = (0, 0, 0, 0)  # what is white in the flag is transparent black here
    collected: dict[str, tuple[Image.Image, dict]] = {
        "plain.png": (colour, {}),
        "plain.JPG": (colour, {"quality": 98, "subsampling": 0}),
        "progressive.jpeg": (colour, {"quality": 98, "subsampling": 0, "progressive": True}),
        "cmyk.jpg": (colour.convert("CMYK"), {"quality": 98}),
        "alpha.png": (Image.fromarray(pixels), {}),
        "palette.png": (colour.convert("P", palette=Image.Palette.ADAPTIVE), {}),
        "named_wrongly.png": (colour, {"format": "WEBP", "lossless": True}),
    }
    listed = clear.convert("P", palette=Image.Palette.ADAPTIVE)
    index = listed.getpixel((SIDE - 1, SIDE - 1))
    collected["palette_alpha.png"] = (listed, {"transparency": bytes(0 if i == index else 255 for i in range(16))})
    for orientation, method in STORED.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored = colour.transpose(method)
        collected[f"turned{orientation}.jpg"] = (stored, {"quality": 98, "subsampling": 0, "exif": exif})
    exif = Image.Exif()
    exif[0x0112] = 6
    collected["turned.png"] = (colour.transpose(Image.Transpose.ROTATE_90), {"exif": exif})
    return collected
