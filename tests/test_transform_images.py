"""Images become pixels of one size as they are normalised everywhere: upright, opaque, of 8 bits."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from tasks.reader import Unusable
from tasks.reader import image as reading
from tasks.reader.image import ORIENTATION, flat
from tasks.records.column_types.media import pixel_sums
from tasks.snapshots.transforms.media import Image as ImageTransform
from tasks.sources.features import DTYPES, Feature
from tests.support.tables import FOLDER

IMAGE = Feature("image", DTYPES["image"])
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 8, 4), np.uint8)
SMOOTH = np.asarray(Image.fromarray(RNG.integers(0, 256, (6, 8, 3), np.uint8)).resize((640, 480), 2))


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def turned(number: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = number
    return exif


def raw_profile(exif: Image.Exif) -> PngInfo:
    """EXIF as a text in hexadecimal digits, as programs wrote it before PNG had a chunk for it."""
    info, content = PngInfo(), exif.tobytes()
    info.add_text("Raw profile type exif", f"\nexif\n{len(content)}\n{content.hex()}\n", zip=True)
    return info


def normalised(payload: bytes) -> Image.Image:
    """An image upright, over white, and of 8 bits, in the plainest way."""
    image = Image.open(io.BytesIO(payload))
    transparent = image.has_transparency_data
    image = ImageOps.exif_transpose(image)
    if transparent:
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("L") if image.mode in ("1", "F") else image


def transformed(*payloads: bytes, **settings: Any) -> np.ndarray:
    """Images as a snapshot has them that is fitted on the same ones."""
    learning = ImageTransform(**{"height": 6, "width": 8, **settings}).fitter("image", IMAGE, FOLDER)
    learning.add(list(payloads), np.arange(len(payloads)))
    return reading.image(learning.fitted().state, FOLDER)(list(payloads))


OPAQUE, GREY = Image.fromarray(PIXELS[..., :3]), Image.fromarray(PIXELS[..., 0])
SIXTEEN = Image.fromarray(RNG.integers(0, 65_536, (6, 8), np.uint16))
FILES = {
    "rgb": encoded(OPAQUE),
    "grey": encoded(GREY),
    "bits": encoded(GREY.convert("1")),
    "palette": encoded(OPAQUE.quantize(8)),
    "transparent palette": encoded(OPAQUE.quantize(8), transparency=3),
    "transparent colour": encoded(OPAQUE, transparency=tuple(PIXELS[0, 0, :3].tolist())),
    "rgba": encoded(Image.fromarray(PIXELS)),
    "grey with alpha": encoded(Image.fromarray(PIXELS[..., :2])),
    "16 bits": encoded(SIXTEEN),
    "cmyk": encoded(OPAQUE.convert("CMYK"), "JPEG"),
    "jpeg": encoded(OPAQUE, "JPEG"),
    "gif": encoded(OPAQUE, "GIF"),
    "bmp": encoded(OPAQUE, "BMP"),
    "webp": encoded(Image.fromarray(PIXELS), "WEBP", lossless=True),
    "tiff of floats": encoded(Image.fromarray(RNG.random((6, 8), np.float32) * 300), "TIFF"),
    **{f"orientation {number}": encoded(OPAQUE, exif=turned(number)) for number in (1, 2, 3, 4)},
    "jpeg, orientation 3": encoded(OPAQUE, "JPEG", exif=turned(3)),
    "orientation 3 as ImageMagick writes it": encoded(OPAQUE, pnginfo=raw_profile(turned(3))),
}


@pytest.mark.parametrize("payload", FILES.values(), ids=FILES)
def test_an_image_of_the_size_keeps_the_normalised_pixels(payload: bytes) -> None:
    plain = normalised(payload)
    expected = plain.convert("RGB"), plain.convert("L")
    for channels, pixels in zip((3, 1), expected, strict=True):
        [result] = transformed(payload, channels=channels)
        np.testing.assert_array_equal(result, np.asarray(pixels).reshape(6, 8, channels))


def test_sixteen_bits_become_the_upper_eight() -> None:
    [result] = transformed(encoded(SIXTEEN), channels=1)
    np.testing.assert_array_equal(result[..., 0], np.asarray(SIXTEEN) >> 8)


def test_a_transparent_pixel_is_white() -> None:
    hidden = PIXELS.copy()
    hidden[..., 3] = 0
    assert (transformed(encoded(Image.fromarray(hidden))) == 255).all()


def png(depth: int, colour: int, row: bytes, transparent: bytes) -> bytes:
    """A PNG of 2 pixels by the letter of its specification."""
    parts = ((b"IHDR", struct.pack(">IIBBBBB", 2, 1, depth, colour, 0, 0, 0)), (b"tRNS", transparent))
    chunks = (*parts, (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


@pytest.mark.parametrize(
    ("payload", "pixels"),
    [
        (png(1, 0, b"\x40", b"\0\0"), [255, 255]),
        (png(2, 0, b"\x60", b"\0\2"), [85, 255]),
        (png(4, 0, b"\x3a", b"\0\x0a"), [51, 255]),
        (png(8, 0, b"\x03\xc8", b"\0\xc8"), [3, 255]),
        (png(16, 0, struct.pack(">2H", 4000, 300), struct.pack(">H", 300)), [15, 255]),
        (png(8, 2, bytes([3, 7, 11, 4, 7, 11]), struct.pack(">3H", 4, 7, 11)), [[3, 7, 11], [255] * 3]),
        (
            png(16, 2, struct.pack(">6H", 1000, 2000, 3000, 1001, 2000, 3000), struct.pack(">3H", 1001, 2000, 3000)),
            [[3, 7, 11], [255] * 3],
        ),
    ],
    ids=("grey 1", "grey 2", "grey 4", "grey 8", "grey 16", "colour 8", "colour 16"),
)
def test_only_the_transparent_level_of_a_png_is_white(payload: bytes, pixels: list[Any]) -> None:
    assert np.asarray(flat(payload)).tolist() == [pixels]


def test_a_png_turned_by_xmp_alone_is_upright() -> None:
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", '<x:xmpmeta><rdf:Description tiff:Orientation="3"/></x:xmpmeta>')
    np.testing.assert_array_equal(np.asarray(flat(encoded(OPAQUE, pnginfo=info))), PIXELS[::-1, ::-1, :3])


@pytest.mark.parametrize("alpha", [0, 128])
def test_a_bmp_whose_alpha_is_zero_everywhere_is_opaque(alpha: int) -> None:
    """As programs write it that know no alpha: the colours are those of the file, in the statistics too."""
    masks = struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    pixels = bytes([30, 20, 10, alpha, 30, 20, 10, 0])
    header = struct.pack("<IiiHHIIiiII", 108, 2, 1, 1, 32, 3, len(pixels), 0, 0, 0, 0) + masks + bytes(52)
    payload = b"BM" + struct.pack("<IHHI", 14 + 108 + len(pixels), 0, 0, 14 + 108) + header + pixels
    shown, channels = ([[10, 20, 30]] * 2, 3) if not alpha else ([[132, 137, 142], [255] * 3], 4)
    assert np.asarray(flat(payload)).tolist() == [shown]
    assert pixel_sums(payload, 10).shape == (1, 2, channels)


SCAN = np.linspace(300, 480, 48).round().reshape(6, 8)
"""12 bits in 16, as scanners write them: all of them have the upper byte 1."""


@pytest.mark.parametrize(
    ("levels", "low", "high"), [("auto", 300, 480), ((340.0, 440.0), 340, 440), ("full", 0, 65_280)]
)
@pytest.mark.parametrize("form", ["PNG", "TIFF", "big-endian TIFF", "TIFF of floats"])
def test_levels_of_more_than_eight_bits_become_those_of_the_range(form: str, levels: Any, low: int, high: int) -> None:
    kinds = {"PNG": "uint16", "TIFF": "uint16", "big-endian TIFF": ">u2", "TIFF of floats": "float32"}
    payload = encoded(Image.fromarray(SCAN.astype(kinds[form])), form.replace("big-endian ", "")[:4].strip())
    if levels == "full":
        expected = np.full((6, 8), 255 if "floats" in form else 1)  # floats have no upper 8 bits: 255 is the brightest
    else:
        expected = np.rint(np.clip((SCAN - low) / (high - low), 0, 1) * 255)
    [result] = transformed(payload, channels=1, range=levels)
    assert np.abs(result[..., 0] - expected).max() <= (1 if levels == "auto" else 0)


def test_the_range_is_that_of_the_pixels_that_are_seen_and_of_the_train_split_alone() -> None:
    hidden = encoded(Image.fromarray(np.array([[60_000, 300, 480]], np.uint16)), transparency=60_000)
    learning = ImageTransform(range="auto").fitter("image", IMAGE, FOLDER)
    learning.add([hidden, b"", b"no image", encoded(OPAQUE)], np.arange(4))
    state = learning.fitted().state
    assert state["range"] == pytest.approx([300, 480], abs=0.5)
    brighter = encoded(Image.fromarray(np.full((4, 4), 9_000, np.uint16)))
    assert (reading.image(state, FOLDER)([brighter]) == 255).all()


def test_images_of_eight_bits_have_no_range() -> None:
    payload = encoded(GREY)
    learning = ImageTransform(range="auto").fitter("image", IMAGE, FOLDER)
    learning.add([payload], np.arange(1))
    assert "range" not in learning.fitted().state
    [result] = transformed(payload, channels=1, range=(10.0, 20.0))
    np.testing.assert_array_equal(result[..., 0], PIXELS[..., 0])


def test_statistics_of_sixteen_bits_are_of_their_levels() -> None:
    levels = np.array([[300, 40_000]])
    for kind in ("<u2", ">u2", "int32"):
        found = pixel_sums(encoded(Image.fromarray(levels.astype(kind)), "TIFF"), 10)
        assert (found.shape, found.sums) == ((1, 2, 1), [40_300])


@pytest.mark.parametrize("number", range(5, 9))
def test_a_turned_image_is_upright_at_any_size(number: int) -> None:
    """Orientations from 5 on exchange height and width; the wanted size is that after it."""
    tall = np.asarray(SMOOTH)
    payload = encoded(Image.fromarray(tall), "JPEG", exif=turned(number), quality=95)
    with Image.open(io.BytesIO(payload)) as image:
        upright = ImageOps.exif_transpose(image)
    assert upright.size == (480, 640)
    whole = np.asarray(upright.resize((60, 70), Image.Resampling.BILINEAR)).astype(int)
    [result] = transformed(payload, height=70, width=60)
    assert np.abs(result - whole).max() <= 4
    assert flat(payload, (60, 70)).size == (120, 160)


def test_a_large_photograph_is_decoded_smaller_with_about_the_same_pixels() -> None:
    payload = encoded(Image.fromarray(SMOOTH), "JPEG", quality=95)
    assert flat(payload, (64, 48)).size == (160, 120)
    assert flat(payload, (320, 240)).size == flat(payload, (640, 480)).size == (640, 480)
    with Image.open(io.BytesIO(payload)) as image:
        whole = np.asarray(image.resize((64, 48), Image.Resampling.BILINEAR)).astype(int)
    [result] = transformed(payload, height=48, width=64)
    assert np.abs(result - whole).max() <= 4 and np.abs(result - whole).mean() < 0.6


def test_fits_of_other_proportions() -> None:
    """A square between two margins: cropped to, squeezed with them, or kept whole above and below black."""
    wide = np.zeros((4, 12, 3), np.uint8)
    wide[:, 4:8] = 200
    payload = encoded(Image.fromarray(wide))
    [crop] = transformed(payload, height=4, width=4, fit="crop")
    assert (crop == 200).all()
    [pad] = transformed(payload, height=12, width=12, fit="pad")
    np.testing.assert_array_equal(pad[4:8], wide)
    assert not pad[:4].any() and not pad[8:].any()
    [stretch] = transformed(payload, height=4, width=3, fit="stretch")
    assert stretch[0, :, 0].tolist() == [29, 150, 29]  # a triangle of 8 columns over each third, cut at the edges


def test_a_missing_image_is_black_and_a_broken_one_is_named() -> None:
    assert not transformed(b"").any()
    whole = FILES["jpeg"]
    broken = [b"no image", whole[: len(whole) // 2], FILES["rgb"][:-60], b"GIF89a"]
    for payload in broken:
        with pytest.raises(Unusable) as caught:
            transformed(whole, payload)
        assert caught.value.row == 1 and f"{len(payload)} bytes" in caught.value.saw


@pytest.mark.parametrize(("width", "height"), [(1, 400), (400, 1), (1, 1), (17, 16), (16, 17)])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_any_proportions_fit(width: int, height: int, fit: str) -> None:
    """A line of which less than half a pixel would be left has one."""
    white = encoded(Image.new("L", (width, height), 255))
    made = transformed(white, fit=fit, channels=1)[0, ..., 0]
    assert made.shape == (6, 8) and set(np.unique(made)) <= {0, 255} and made.any()
    assert (made == 255).all() == (fit != "pad")
    if fit == "pad":
        lit = np.argwhere(made)
        shown = lit.max(axis=0) - lit.min(axis=0) + 1
        assert (shown[0] == 6 or shown[1] == 8) and (shown >= 1).all()
