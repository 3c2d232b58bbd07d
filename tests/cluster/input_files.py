"""Small files to train on: CSV, TFRecord of tf.Example, images, records."""

import base64
import os
import struct
import zlib

# A grey image of 4 x 4 pixels, as libjpeg writes it.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9"
    "PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/wAALCAAEAAQBAREA/8QAFAAB"
    "AAAAAAAAAAAAAAAAAAAABf/EABoQAAAHAAAAAAAAAAAAAAAAAAACBAUGEyP/2gAIAQEAAD8A"
    "aSRhroLgP//Z")


def write(directory, name, content):
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    return path


def csv(rows):
    """Columns x, y and kind."""
    return "".join(f"{row}\n" for row in ["x,y,kind", *rows]).encode()


def csv_rows(count):
    return [f"{i % 7},{i % 5},{i % 10}" for i in range(count)]


def png(width, height, level):
    """A grey image of one level."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    rows = (b"\0" + bytes([level]) * width) * height
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0,
                                       0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def _crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def _masked(data):
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) % 2 ** 32)


def record(data):
    """As it stands in a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def example(x, kind):
    """A tf.Example of the floats `x` and the integer `kind`."""
    def field(number, data):
        assert len(data) < 128
        return bytes([number << 3 | 2, len(data)]) + data

    def feature(name, kind_of_list, values):
        return field(1, field(1, name) +
                     field(2, field(kind_of_list, field(1, values))))

    return field(1, feature(b"x", 2, struct.pack(f"<{len(x)}f", *x)) +
                 feature(b"label", 3, bytes([kind])))


def examples(count):
    return [record(example([i % 7, i % 5], i % 10)) for i in range(count)]


CSV = {"csv": {"files": ["train.csv"], "label": "kind", "classes": 10}}
TFRECORD = {"tfrecord": {
    "files": ["*.tfrecord"],
    "features": [{"name": "x", "dims": [2]},
                 {"name": "label", "type": "int32", "classes": 10}]}}
IMAGES = {"image_folders": {"channels": 1}}
AS_FLOATS = {"cast": {"feature": "image", "type": "float32"}}


def job(directory, source, stages=({"prefetch": 2},), **more):
    """A job of one epoch on files in `directory`, in their order."""
    return {
        "name": "files",
        "batch_per_replica": 8,
        "input": {"train": {"directory": directory, **source},
                  "stages": list(stages), **more},
        "model": {"layers": ["flatten", {"dense": 10}],
                  "loss": "softmax_cross_entropy"},
        "optimizer": {"sgd": {}, "learning_rate": 0.01},
    }
