"""PNG, WebP, BMP and GIF: pixels of Pillow, OpenCV and the formats' definitions, limits, damage."""

from __future__ import annotations

import base64
import contextlib
import io
import struct
import time
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

import endcap
from endcap import _core
from tests.reference.orientation import oriented
from tests.support import image_files, jpegs
from tests.support.jpegs import Pixels
from tests.support.other_libraries import opencv_rgb, pillow_rgb

ALL = "jpeg,png,webp,bmp,gif"
PICTURE = jpegs.photo(37, 53, seed=3)
JPEG = jpegs.encode(PICTURE)


def encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def decode(data: bytes, **options: Any) -> Pixels:
    return endcap.decode(data, formats=ALL, **options)


def on_white(rgba: Pixels) -> Pixels:
    """Laid on white, rounded to the nearest."""
    color, alpha = rgba[..., :3].astype(np.int64), rgba[..., 3:].astype(np.int64)
    return ((color * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def assert_equals_pillow(data: bytes) -> None:
    """With alpha dropped as by Pillow, and laid on white."""
    np.testing.assert_array_equal(decode(data), pillow_rgb(data))
    rgba = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
    np.testing.assert_array_equal(decode(data, alpha="white"), on_white(rgba))


def rgba_picture(height: int = 37, width: int = 53) -> Pixels:
    alpha = np.random.default_rng(5).integers(0, 256, (height, width, 1), np.uint8)
    alpha[:4] = 255
    alpha[4:8] = 0
    return np.concatenate([jpegs.photo(height, width, seed=3), alpha], axis=2)


# --- PNG


def png_samples(color_type: int, bits: int, height: int, width: int) -> Any:
    random = np.random.default_rng(10 * color_type + bits)
    return random.integers(0, 1 << bits, (height, width, image_files.PNG_CHANNELS[color_type]))


def expected_png(samples: Any, color_type: int, bits: int, palette: Any = None) -> Pixels:
    """RGB or RGBA as the PNG specification defines samples, with the upper 8 bits of 16."""
    values = samples >> 8 if bits == 16 else samples
    if color_type == 3:
        return np.asarray(palette[values[..., 0]], np.uint8)
    if bits < 8:
        values = values * 255 // ((1 << bits) - 1)
    values = values.astype(np.uint8)
    if color_type in (4, 6):
        gray = np.concatenate([np.repeat(values[..., :1], 3, 2), values[..., 1:]], 2)
        return values if color_type == 6 else gray
    return np.repeat(values, 3, 2) if color_type == 0 else values


PNG_KINDS = [
    *((0, bits) for bits in (1, 2, 4, 8, 16)),
    *((2, bits) for bits in (8, 16)),
    *((3, bits) for bits in (1, 2, 4, 8)),
    *((color, bits) for color in (4, 6) for bits in (8, 16)),
]


@pytest.mark.parametrize("interlaced", [False, True], ids=["rows", "interlaced"])
@pytest.mark.parametrize(("color_type", "bits"), PNG_KINDS)
def test_every_kind_of_png(color_type: int, bits: int, interlaced: bool) -> None:
    for height, width in ((1, 1), (3, 2), (9, 17), (37, 53)):
        samples = png_samples(color_type, bits, height, width)
        palette = None
        if color_type == 3:
            palette = np.random.default_rng(1).integers(0, 256, (1 << bits, 3))
        data = image_files.png(
            samples, color_type, bits, interlaced=interlaced, palette=palette, parts=3
        )
        expected = expected_png(samples, color_type, bits, palette)
        np.testing.assert_array_equal(decode(data), expected[..., :3])
        np.testing.assert_array_equal(opencv_rgb(data), expected[..., :3])
        if color_type in (4, 6):
            np.testing.assert_array_equal(decode(data, alpha="white"), on_white(expected))
            if bits == 8:
                assert_equals_pillow(data)


@pytest.mark.filterwarnings("ignore:Palette images with Transparency:UserWarning")
def test_transparent_colors_of_a_png() -> None:
    gray = image_files.png(np.array([[[10], [200]]]), 0, 8, transparency=b"\x00\x0a")
    assert decode(gray, alpha="white").tolist() == [[[255] * 3, [200] * 3]]
    rgb = image_files.png(np.array([[[1, 2, 3], [1, 2, 4]]]), 2, 8, transparency=b"\0\1\0\2\0\3")
    assert decode(rgb, alpha="white").tolist() == [[[255] * 3, [1, 2, 4]]]
    palette = np.array([[100, 0, 0], [0, 50, 0]])
    indexed = image_files.png(np.array([[[0], [1]]]), 3, 1, palette=palette, transparency=b"\x80")
    for data in (gray, rgb, indexed):
        assert_equals_pillow(data)
        np.testing.assert_array_equal(decode(data), opencv_rgb(data))


def test_png_profiles_gamma_and_texts_change_nothing() -> None:
    samples = png_samples(2, 8, 5, 6)
    bomb = b"x\0\0" + zlib.compress(bytes(50_000_000), 9)
    chunks = [
        image_files.png_chunk(b"gAMA", (10_000).to_bytes(4, "big")),
        image_files.png_chunk(b"iCCP", bomb),
        image_files.png_chunk(b"zTXt", bomb),
        image_files.png_chunk(b"abcD", b"private"),
    ]
    data = image_files.png(samples, 2, 8, chunks=chunks)
    np.testing.assert_array_equal(decode(data), samples)


# --- WebP, BMP, GIF


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}, {"quality": 5}])
@pytest.mark.parametrize("size", [(1, 1), (3, 8), (37, 53), (240, 319)])
def test_webp_equals_pillow(size: tuple[int, int], options: dict[str, Any]) -> None:
    data = encode(Image.fromarray(jpegs.photo(*size)), "WEBP", **options)
    np.testing.assert_array_equal(endcap.decode(data), pillow_rgb(data))
    data = encode(Image.fromarray(rgba_picture(*size)), "WEBP", **options, exact=True)
    assert_equals_pillow(data)
    np.testing.assert_array_equal(endcap.decode(data), opencv_rgb(data))


def test_of_an_animation_the_first_frame_is_decoded() -> None:
    frames = [Image.fromarray(jpegs.photo(20, 30, seed=seed)) for seed in (1, 2)]
    data = encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    np.testing.assert_array_equal(endcap.decode(data), np.asarray(frames[0]))
    small = [frame.quantize(64) for frame in frames]
    data = encode(small[0], "GIF", save_all=True, append_images=small[1:])
    np.testing.assert_array_equal(decode(data), np.asarray(small[0].convert("RGB")))


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_webp_frame_smaller_than_its_canvas(mode: str) -> None:
    frames = [Image.fromarray(rgba_picture(20, 30)).convert(mode), Image.new(mode, (30, 20))]
    options: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "lossless": True}
    data = bytearray(encode(frames[0], "WEBP", **options, exact=True))
    at = data.index(b"VP8X") + 12
    data[at : at + 6] = (39).to_bytes(3, "little") + (25).to_bytes(3, "little")  # 40 x 26
    frame = data.index(b"ANMF") + 8
    data[frame : frame + 6] = (2).to_bytes(3, "little") + (1).to_bytes(3, "little")
    np.testing.assert_array_equal(endcap.decode(bytes(data)), pillow_rgb(bytes(data)))
    expected = np.full((26, 40, 3), 255, np.uint8)
    expected[2:22, 4:34] = on_white(np.asarray(frames[0].convert("RGBA")))
    np.testing.assert_array_equal(endcap.decode(bytes(data), alpha="white"), expected)
    data[frame : frame + 3] = (6).to_bytes(3, "little")
    with pytest.raises(endcap.CorruptImageError, match="outside of the image"):
        endcap.decode(bytes(data))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_bmp_equals_pillow(mode: str) -> None:
    image = Image.fromarray(rgba_picture()).convert("RGB").convert(mode)
    assert_equals_pillow(encode(image, "BMP"))


BMP_PALETTE = np.random.default_rng(6).integers(0, 256, (256, 3)).astype(np.uint8)


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("header_bytes", [12, 40, 108, 124])
def test_bmp_palettes(bits: int, header_bytes: int) -> None:
    indices = np.random.default_rng(bits).integers(0, 1 << bits, (5, 13))
    entries = BMP_PALETTE[: 1 << bits, ::-1]
    if header_bytes == 12:
        palette = entries.tobytes()
    else:
        palette = np.pad(entries, ((0, 0), (0, 1))).tobytes()
    rows = [image_files.packed_indices(row, bits) for row in indices]
    for top_down in (False, True):
        if top_down and header_bytes == 12:
            continue
        data = image_files.bmp(
            rows, 13, 5, bits, palette=palette, header_bytes=header_bytes, top_down=top_down
        )
        np.testing.assert_array_equal(decode(data), BMP_PALETTE[indices])


def test_bmp_masks() -> None:
    values = np.random.default_rng(8).integers(0, 1 << 16, (4, 7))
    rows = [row.astype("<u2").tobytes() for row in values]

    def scaled(shift: int, bits: int) -> Any:
        return ((values >> shift) & ((1 << bits) - 1)) * 255 // ((1 << bits) - 1)

    data = image_files.bmp(rows, 7, 4, 16)
    expected = np.stack([scaled(10, 5), scaled(5, 5), scaled(0, 5)], -1)
    np.testing.assert_array_equal(decode(data), expected)
    np.testing.assert_array_equal(decode(data), pillow_rgb(data))
    for header_bytes in (40, 56):
        masks = (0xF800, 0x07E0, 0x001F)
        data = image_files.bmp(
            rows, 7, 4, 16, compression=3, masks=masks, header_bytes=header_bytes
        )
        expected = np.stack([scaled(11, 5), scaled(5, 6), scaled(0, 5)], -1)
        np.testing.assert_array_equal(decode(data), expected)
    rgba = rgba_picture(4, 7)
    rows = [row.tobytes() for row in rgba]
    masks = (0xFF, 0xFF00, 0xFF0000, 0xFF000000)
    data = image_files.bmp(rows, 7, 4, 32, compression=3, masks=masks, header_bytes=108)
    assert_equals_pillow(data)
    data = image_files.bmp(rows, 7, 4, 32)  # the fourth byte means nothing
    np.testing.assert_array_equal(decode(data), rgba[..., 2::-1])


def test_bmp_rle() -> None:
    palette = np.pad(BMP_PALETTE[:, ::-1], ((0, 0), (0, 1))).tobytes()
    # Bottom row: a run of 3 and literals of 5; above it a gap of 2 and one of the second colour.
    rle8 = bytes([3, 7, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 2, 2, 0, 1, 9, 0, 1])
    indices = np.array([[0, 0, 9, 0, 0, 0, 0, 0], [7, 7, 7, 1, 2, 3, 4, 5]])
    data = image_files.bmp([rle8], 8, 2, 8, compression=1, palette=palette)
    np.testing.assert_array_equal(decode(data), BMP_PALETTE[indices])
    rle4 = bytes([5, 0x12, 0, 3, 0x34, 0x50, 0, 0, 0, 1])
    data = image_files.bmp([rle4], 8, 2, 4, compression=2, palette=palette[:64])
    indices = np.array([[0] * 8, [1, 2, 1, 2, 1, 3, 4, 5]])
    np.testing.assert_array_equal(decode(data), BMP_PALETTE[indices])
    with pytest.raises(endcap.CorruptImageError, match="cut short"):
        decode(data[:-4])


@pytest.mark.parametrize("colors", [2, 16, 200])
@pytest.mark.parametrize("interlace", [0, 1])
def test_gif_equals_pillow(colors: int, interlace: int) -> None:
    for height, width in ((1, 1), (5, 3), (37, 53)):
        image = Image.fromarray(jpegs.photo(height, width)).quantize(colors)
        data = encode(image, "GIF", interlace=interlace)
        np.testing.assert_array_equal(decode(data), np.asarray(image.convert("RGB")))


def test_gif_frame_and_transparency() -> None:
    image = Image.fromarray(PICTURE).quantize(32)
    data = bytearray(encode(image, "GIF", transparency=4, interlace=0))
    rgb = np.asarray(image.convert("RGB")).copy()
    rgb[np.asarray(image) == 4] = 255
    np.testing.assert_array_equal(decode(bytes(data), alpha="white"), rgb)
    assert_equals_pillow(bytes(data))
    data[6:10] = (60).to_bytes(2, "little") + (30).to_bytes(2, "little")  # the screen
    frame = data.index(b"\x2c\0\0\0\0") + 1
    data[frame : frame + 4] = (20).to_bytes(2, "little") + (3).to_bytes(2, "little")
    expected = np.full((30, 60, 3), 255, np.uint8)
    expected[3:, 20:] = rgb[:27, :40]
    np.testing.assert_array_equal(decode(bytes(data), alpha="white"), expected)
    # Pillow makes the screen larger where the frame goes beyond it.
    np.testing.assert_array_equal(decode(bytes(data)), pillow_rgb(bytes(data))[:30, :60])
    opaque = bytearray(encode(image, "GIF", interlace=0))
    opaque[6:10] = data[6:10]
    place, frame = data[frame : frame + 4], opaque.index(b"\x2c\0\0\0\0") + 1
    opaque[frame : frame + 4] = place
    np.testing.assert_array_equal(decode(bytes(opaque)), pillow_rgb(bytes(opaque))[:30, :60])


# --- Common to all


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[jpegs.ORIENTATION_TAG] = orientation
    return tags


FILES = {
    "png": image_files.png(PICTURE, 2, 8),
    "png_interlaced": image_files.png(PICTURE, 2, 8, interlaced=True),
    "png_alpha": encode(Image.fromarray(rgba_picture()), "PNG"),
    "webp": encode(Image.fromarray(PICTURE), "WEBP", quality=90),
    "webp_alpha": encode(Image.fromarray(rgba_picture()), "WEBP", lossless=True),
    "bmp": encode(Image.fromarray(PICTURE), "BMP"),
    "gif": encode(Image.fromarray(PICTURE).quantize(64), "GIF", interlace=0),
    "gif_interlaced": encode(Image.fromarray(PICTURE).quantize(64), "GIF", interlace=1),
}


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_exif_orientation(kind: str) -> None:
    image = Image.fromarray(PICTURE)
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encode(image, kind, exif=exif(6), **options)
    np.testing.assert_array_equal(endcap.decode(data), oriented(PICTURE, 6))
    np.testing.assert_array_equal(endcap.decode(data, exif="ignore"), PICTURE)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "options",
    [
        {"size": 32},
        {"size": 20, "color": "gray"},
        {"size": 20, "alpha": "white"},
        {"size": 32, "decode": "fast"},
        {"preset": "torchvision", "size": 16, "resize_shorter": 20},
        {"size": (90, 100), "dtype": "uint8", "layout": "nhwc"},
    ],
    ids=["letterbox", "gray", "white", "fast", "antialias", "larger"],
)
def test_tensors_are_those_of_the_decoded_pixels(name: str, options: dict[str, Any]) -> None:
    expected = endcap.preprocess(decode(FILES[name], alpha=options.get("alpha")), **options)
    for implementation in ("scalar", "simd"):
        endcap.force_implementation(implementation)
        try:
            actual = endcap.preprocess(FILES[name], formats=ALL, **options)
        finally:
            endcap.force_implementation("auto")
        np.testing.assert_array_equal(actual.images, expected.images)
        np.testing.assert_array_equal(actual.geometry, expected.geometry)
        assert actual.decoders == ("cpu",)
        assert actual.decode_seconds[0] > 0


@pytest.mark.parametrize("name", FILES)
def test_regions_are_those_of_the_decoded_pixels(name: str) -> None:
    rois = np.array([[2, 3, 20, 30], [0, 0, 53, 37], [40, 20, 53, 37]], np.float32)
    expected = endcap.preprocess(decode(FILES[name]), rois=rois, size=24)
    actual = endcap.preprocess(FILES[name], rois=rois, size=24, formats=ALL)
    np.testing.assert_array_equal(actual.images, expected.images)
    np.testing.assert_array_equal(actual.geometry, expected.geometry)


def test_a_bad_file_leaves_its_neighbours_alone() -> None:
    files = list(FILES.values())
    batch = [part for file in files for part in (file, file[: len(file) // 2])]
    result = endcap.preprocess(batch, size=32, formats=ALL, on_error="blank")
    assert result.status.tolist() == [endcap.Status.OK, endcap.Status.CORRUPT_IMAGE] * len(files)
    expected = endcap.preprocess(files, size=32, formats=ALL)
    np.testing.assert_array_equal(result.images[::2], expected.images)
    assert not result.images[1::2].any()


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_corrupt_or_lacks_no_pixel(name: str) -> None:
    data = FILES[name]
    whole = decode(data)
    complete = 0
    for length in [*range(0, min(len(data), 200)), *range(200, len(data), 37), len(data) - 1]:
        try:
            pixels = decode(data[:length])
        except endcap.CorruptImageError:
            continue
        np.testing.assert_array_equal(pixels, whole)
        complete += 1
        assert len(data) - length < 16, "only what follows the pixels may be left out"
    assert complete <= 16


@pytest.mark.parametrize("name", FILES)
def test_limits_are_checked_on_the_header(name: str) -> None:
    data = FILES[name]
    with pytest.raises(endcap.ImageLimitError, match="max_pixels allows 1960"):
        decode(data, max_pixels=37 * 53 - 1)
    with pytest.raises(endcap.ImageLimitError, match="max_side allows 52"):
        decode(data, max_side=52)
    with pytest.raises(endcap.ImageLimitError, match="max_bytes"):
        decode(data, max_bytes=len(data) - 1)
    pixels = 37 * 53
    held = {"png_interlaced": 4, "webp": 3, "webp_alpha": 8, "gif_interlaced": 1}.get(name)
    if held is None:  # decoded row by row
        decode(data, max_decoded_bytes=1)
    else:
        decode(data, max_decoded_bytes=held * pixels)
        with pytest.raises(endcap.ImageLimitError, match=f"takes {held * pixels} bytes"):
            decode(data, max_decoded_bytes=held * pixels - 1)


def test_headers_that_claim_what_their_data_cannot_hold() -> None:
    bomb = image_files.with_png_size(FILES["png"], 9000, 9000)
    with pytest.raises(endcap.CorruptImageError, match="cut short: 9000x9000 pixels take at least"):
        endcap.decode(bomb)
    with pytest.raises(endcap.ImageLimitError, match="2147483647"):
        endcap.decode(image_files.with_png_size(FILES["png"], 2**31 - 1, 1))
    for width, height in ((0, 5), (5, 0), (2**32 - 1, 5)):
        with pytest.raises(endcap.CorruptImageError, match="pixels; both sides"):
            endcap.decode(image_files.with_png_size(FILES["png"], width, height))
    huge = image_files.bmp([b"\0\1"], 9000, 9000, 8, compression=1, palette=bytes(4))
    with pytest.raises(endcap.ImageLimitError, match="max_decoded_bytes"):
        decode(huge, max_decoded_bytes=10**6)
    with pytest.raises(endcap.CorruptImageError, match="cut short"):
        decode(image_files.bmp([b"\0" * 3], 9000, 9000, 24))


# --- Bytes that hold no pixels: at most 2 MB, which no pixel depends on or which follow them

SMALL = jpegs.photo(9, 8, seed=4)  # the last row of an interlaced PNG has no data in the last pass


def deflate(data: bytes) -> bytes:
    """Blocks that may be repeated."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress(data) + stream.flush(zlib.Z_FULL_FLUSH)


ZLIB_HEADER = b"\x78\x9c"
BOMB = deflate(bytes(1 << 20)) * 1500 + b"\3\0" + bytes(4)


def png_with_tail(samples: Pixels, *, interlaced: bool = False) -> bytes:
    """A PNG whose image data goes on behind the last row."""
    data = image_files.png(samples, 2, 8, interlaced=interlaced)
    begin = data.index(b"IDAT") + 4
    size = int.from_bytes(data[begin - 8 : begin - 4], "big")
    rows = zlib.decompress(data[begin : begin + size])
    longer = image_files.png_chunk(b"IDAT", ZLIB_HEADER + deflate(rows) + BOMB)
    return data[: begin - 8] + longer + data[begin + size + 4 :]


def webp_chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def riff(body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def gif_codes(data: bytes, codes: bytes) -> bytes:
    """A GIF with blocks of codes before those of its first frame."""
    begin = data.index(b",", 13 + (3 << (data[10] % 8 + 1))) + 10
    flags = data[begin - 1]
    begin += (3 << (flags % 8 + 1) if flags & 128 else 0) + 1
    blocks = [codes[i : i + 255] for i in range(0, len(codes), 255)]
    return data[:begin] + b"".join(bytes([len(b)]) + b for b in blocks) + data[begin:]


def files_with_idle_bytes() -> dict[str, tuple[bytes, bytes]]:
    """Pairs of such a file, and the same without these bytes."""
    zeros = bytes(1_900_000)
    text = b"x\0\0" + ZLIB_HEADER + BOMB
    image = Image.fromarray(SMALL)
    png = image_files.png(SMALL, 2, 8)
    interlaced = image_files.png(SMALL, 2, 8, interlaced=True)
    webp, gif, jpeg = (encode(image, kind) for kind in ("WEBP", "GIF", "JPEG"))
    progressive = encode(image, "JPEG", progressive=True)
    frame = encode(
        image, "WEBP", save_all=True, append_images=[Image.fromarray(255 - SMALL)], lossless=True
    )
    anmf = frame.index(b"ANMF")
    one = frame[anmf : anmf + 8 + int.from_bytes(frame[anmf + 4 : anmf + 8], "little")]
    canvas = webp_chunk(b"VP8X", bytes([0, 0, 0, 0, 7, 0, 0, 8, 0, 0]))
    colors = 13 + (3 << (gif[10] % 8 + 1))
    files = {
        "png_rows": (png_with_tail(SMALL), png),
        "png_even": (
            png_with_tail(SMALL[:8], interlaced=True),
            image_files.png(SMALL[:8], 2, 8, interlaced=True),
        ),
        "png_odd": (png_with_tail(SMALL, interlaced=True), interlaced),
        "png_fdAT": (png[:-12] + image_files.png_chunk(b"fdAT", text) + png[-12:], png),
        "webp_EXIF": (encode(image, "WEBP", exif=b"Exif\0\0" + zeros), webp),
        "webp_ICCP": (encode(image, "WEBP", icc_profile=zeros), webp),
        "webp_chunks": (riff(canvas + webp_chunk(b"abcd", b"") * 200_000 + webp[12:]), webp),
        "webp_frames": (riff(frame[12:anmf] + one * (1_900_000 // len(one))), frame),
        "webp_end": (webp + zeros, webp),
        "gif_blocks": (gif[:colors] + b"!\xfe" + b"\1x" * 900_000 + b"\0" + gif[colors:], gif),
        "gif_extensions": (gif[:colors] + b"!\xfe\0" * 600_000 + gif[colors:], gif),
        "gif_frames": (gif[:-1] + gif[colors:-1] * (1_900_000 // len(gif[colors:])) + b";", gif),
        "gif_codes": (gif[:-2] + b"\1x" * 900_000 + b"\0;", gif),
        "bmp_end": (encode(image, "BMP") + zeros, encode(image, "BMP")),
    }
    for kind in (b"zTXt", b"iCCP", b"abCd"):
        chunk = image_files.png_chunk(kind, text)
        files[f"png_{kind.decode()}"] = (image_files.png(SMALL, 2, 8, chunks=[chunk]), png)
        files[f"png_{kind.decode()}_behind"] = (png[:-12] + chunk + png[-12:], png)
    for name, data in (("jpeg", jpeg), ("jpeg_progressive", progressive)):
        comment = b"\xff\xfe\0\x76" + bytes(116)
        exif = b"\xff\xe1\0\x76Exif\0\0" + bytes(110)
        files[f"{name}_end"] = (data + b"\xff\xd0" * 900_000, data)
        files[f"{name}_COM"] = (data[:2] + comment * 16_000 + data[2:], data)
        files[f"{name}_APP1"] = (data[:2] + exif * 16_000 + data[2:], data)
        files[f"{name}_COM_behind"] = (data[:-2] + comment * 16_000 + data[-2:], data)
    return files


IDLE = files_with_idle_bytes()


def cpu_seconds(data: bytes) -> float:
    """Of this process: least of three, since the first may allocate."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        with contextlib.suppress(endcap.CorruptImageError, endcap.ImageLimitError):
            decode(data)
        seconds.append(time.process_time() - begin)
    return min(seconds)


@pytest.fixture(scope="module")
def plain_seconds() -> float:
    """Of a plain PNG of 9 megapixels."""
    return cpu_seconds(encode(Image.new("RGB", (3000, 3000)), "PNG"))


@pytest.mark.parametrize("name", IDLE)
def test_bytes_without_pixels_take_little_time(name: str, plain_seconds: float) -> None:
    data, plain = IDLE[name]
    assert len(data) < 2_000_000
    np.testing.assert_array_equal(decode(data), decode(plain))
    assert cpu_seconds(data) < plain_seconds


@pytest.mark.parametrize("behind", [False, True])
def test_marker_segments_without_end_are_refused(behind: bool, plain_seconds: float) -> None:
    jpeg = encode(Image.fromarray(SMALL), "JPEG", progressive=True)
    place = len(jpeg) - 2 if behind else 2
    for segment in (b"\xff\xfe\0\2", b"\xff\xe1\0\x08Exif\0\0"):
        data = jpeg[:place] + segment * 400_000 + jpeg[place:]
        with pytest.raises(endcap.ImageLimitError, match="more than 16384 marker segments"):
            decode(data)
        assert cpu_seconds(data) < plain_seconds


def test_codes_without_pixels_are_corrupt(plain_seconds: float) -> None:
    png = image_files.png(SMALL, 2, 8)
    begin = png.index(b"IDAT") + 4
    end = png.index(b"IEND") - 8
    empty = b"\0\0\0\xff\xff" * 300_000  # stored blocks of no byte
    blocks = png[begin : begin + 2] + empty + png[begin + 2 : end]
    idle_png = png[: begin - 8] + image_files.png_chunk(b"IDAT", blocks) + png[end + 4 :]
    gif = encode(Image.fromarray(SMALL).quantize(128), "GIF")
    idle_gif = gif_codes(gif, b"\x80" * 1_900_000)  # codes of 8 bits that clear the table
    for data, message in (
        (idle_png, "longer than its pixels need"),
        (idle_gif, "the GIF is"),
    ):
        with pytest.raises(endcap.CorruptImageError, match=message):
            decode(data)
        assert cpu_seconds(data) < plain_seconds


def test_the_checksum_behind_the_last_row_is_checked() -> None:
    for samples in (SMALL, SMALL[:8]):
        for interlaced in (False, True):
            for parts in (1, 20):
                data = image_files.png(samples, 2, 8, interlaced=interlaced, parts=parts)
                np.testing.assert_array_equal(decode(data), samples)
                damaged = bytearray(data)
                damaged[data.index(b"IEND") - 5] ^= 1
                with pytest.raises(endcap.CorruptImageError, match="CRC"):
                    decode(bytes(damaged))


def test_costs_are_those_of_pixels() -> None:
    core = _core.Preprocessor([], 1)
    names = ("png_rows", "png_zTXt", "webp_EXIF", "webp_frames")
    for data, plain in (*(IDLE[name] for name in names), (base64.b64encode(JPEG), JPEG)):
        assert core.predict_ms([data]) == pytest.approx(core.predict_ms([plain]), abs=0.02)


def test_formats_are_the_callers_choice() -> None:
    default = {p.name: p.value for p in endcap.Preprocessor().describe()}["formats"]
    assert default == "jpeg,png,webp,y4m"
    for name, article in (("bmp", "a BMP image"), ("gif", "a GIF image")):
        with pytest.raises(endcap.UnsupportedError, match=f"{article}, which the parameter"):
            endcap.decode(FILES[name])
    for name in FILES:
        with pytest.raises(endcap.UnsupportedError, match=r"add it there, in the config\.pbtxt of"):
            endcap.decode(FILES[name], formats="jpeg")
        kind = name.partition("_")[0]
        assert endcap.decode(FILES[name], formats=[kind]).shape == (37, 53, 3)
    with pytest.raises(endcap.InvalidArgumentError, match="formats is 'tiff': give one of jpeg"):
        endcap.decode(FILES["png"], formats="tiff")


@pytest.mark.parametrize(
    ("data", "phrase"),
    [
        (b"\0\0\0\x1cftypavif", "an AVIF image, which is not decoded: .*magick IN out.png"),
        (b"\0\0\0\x1cftypheic", "a HEIF image"),
        (b"\0\0\0\x1cftypmif1", "a HEIF image"),
        (b"\0\0\0\x1cftypisom", "a video or another ISO media file.*ffmpeg -i IN"),
        (b"II*\0", "a TIFF image"),
        (b"MM\0*", "a TIFF image"),
        (b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
        (b"\xff\x0a", "a JPEG XL image"),
        (b"8BPS", "a Photoshop image"),
        (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
        (b"RIFF\0\0\0\0AVI ", "an AVI video"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_formats_are_named_with_what_converts_them(data: bytes, phrase: str) -> None:
    with pytest.raises(endcap.UnsupportedError, match=phrase):
        endcap.decode(data + bytes(100))


def test_a_multipart_form_is_named() -> None:
    form = b'--b2\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + FILES["png"]
    with pytest.raises(endcap.CorruptImageError, match="it is a multipart form: send the file's"):
        endcap.decode(form)


# --- Base64 text

WITH_JPEG = {**FILES, "jpeg": JPEG}
TEXTS = {
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "unpadded": lambda data: base64.b64encode(data).rstrip(b"="),
    "lines": base64.encodebytes,
    "data URL": lambda data: b"data:image/x;charset=utf-8;base64," + base64.b64encode(data),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", WITH_JPEG)
def test_base64_text_is_the_file_in_it(name: str, text: str) -> None:
    for extra in (b"", b"\0", b"\0\0"):  # every length of the last group
        data = WITH_JPEG[name] + extra
        expected = endcap.preprocess(data, size=32, formats=ALL)
        actual = endcap.preprocess([TEXTS[text](data), data], size=32, formats=ALL)
        np.testing.assert_array_equal(actual.images, np.repeat(expected.images, 2, axis=0))


def test_base64_text_of_a_frame_and_with_regions() -> None:
    frame = b"YUV4MPEG2 W2 H2 C444\nFRAME\n" + bytes(range(12))
    for data, options in ((frame, {}), (JPEG, {"rois": [[2, 3, 30, 20], [0, 0, 9, 9]]})):
        expected = endcap.preprocess(data, size=32, **options)
        actual = endcap.preprocess(base64.b64encode(data), size=32, **options)
        np.testing.assert_array_equal(actual.images, expected.images)
        np.testing.assert_array_equal(actual.geometry, expected.geometry)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (base64.b64encode(JPEG)[:80] + b"." + base64.b64encode(JPEG)[81:], "character 80 of"),
        (base64.b64encode(JPEG[:30])[:-3], "its 37 characters do not end with a whole byte"),
        (base64.b64encode(JPEG[:30])[:-2] + b"9", "its 39 characters do not end"),  # unused bits
        (base64.b64encode(JPEG[:31])[:-1], "its 43 characters do not end"),  # half of the padding
        (base64.b64encode(JPEG[:-100]), "the JPEG is cut short or damaged"),
        (base64.b64encode(base64.b64encode(JPEG)), "of an unknown format"),
        (b"data:image/svg+xml;base64," + base64.b64encode(b"<svg></svg>"), "markup text"),
        (b"/9j.jpg", "of an unknown format"),
    ],
)
def test_damaged_base64_text_is_the_status_of_its_image(text: bytes, message: str) -> None:
    with pytest.raises(endcap.CorruptImageError, match=message):
        endcap.preprocess(text)
    batch = endcap.preprocess([text, base64.b64encode(JPEG)], size=32, on_error="blank")
    assert batch.status.tolist() == [endcap.Status.CORRUPT_IMAGE, endcap.Status.OK]
    np.testing.assert_array_equal(batch.images[1], endcap.preprocess(JPEG, size=32).images[0])


def test_limits_of_base64_text_are_those_of_the_file() -> None:
    size = len(JPEG)
    for text in (base64.b64encode(JPEG), base64.encodebytes(JPEG)):
        endcap.preprocess(text, size=32, max_bytes=size)
        with pytest.raises(endcap.ImageLimitError, match=f"the image has {size} bytes"):
            endcap.preprocess(text, size=32, max_bytes=size - 1)
    with pytest.raises(endcap.ImageLimitError, match="max_side allows 52"):
        endcap.preprocess(base64.b64encode(JPEG), max_side=52)


def test_base64_text_is_the_callers_choice() -> None:
    for read in (endcap.decode, lambda text: endcap.preprocess(text, base64="reject")):
        with pytest.raises(endcap.CorruptImageError, match="it is base64 text"):
            read(base64.b64encode(JPEG))


def test_a_file_that_looks_like_base64_text_stays_a_file() -> None:
    header = b"BM" + b"A" * 8  # sizes in the header of a BMP
    with pytest.raises(endcap.CorruptImageError, match="the BMP"):
        endcap.preprocess(header + b"A" * 100, formats=ALL)


# --- Zeros that NumPy drops


def test_error_names_zeros_that_numpy_dropped() -> None:
    black = encode(Image.fromarray(np.zeros((8, 8, 3), np.uint8)), "BMP")
    frame = b"YUV4MPEG2 W2 H2 C444\nFRAME\n" + bytes(range(12))[::-1]
    padded = next(
        data
        for quality in range(100)
        if (data := encode(Image.fromarray(PICTURE), "WEBP", quality=quality))[-1] == 0
    )
    for data in (black, frame, padded):
        assert endcap.preprocess(data, formats=f"{ALL},y4m").status[0] == 0
        dropped = np.array([data], np.bytes_)[0]
        assert len(dropped) < len(data)
        with pytest.raises(endcap.CorruptImageError, match=r"cut short.*array with np\.object_"):
            endcap.preprocess(dropped, formats=f"{ALL},y4m")
