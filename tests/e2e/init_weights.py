"""init_weights.py FROM TO CLASSES: a file as another program writes it.  Reads float32 weights that kas-gpu wrote and
writes them as PyTorch users have them: convolutions in float16, the rest in bfloat16, batch norm with its counter of
batches, the classifier with CLASSES classes.  Only the standard library."""
import json
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def convert(shape, raw):
    values = struct.unpack(f"<{len(raw) // 4}f", raw)
    if len(shape) == 4:
        return "F16", struct.pack(f"<{len(values)}e", *values)
    return "BF16", b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))


def main(source, target, classes):
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0

    def add(name, dtype, shape, blob):
        nonlocal offset
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)

    for name, (shape, raw) in read(source).items():
        if name.startswith("fc."):
            raw = raw[:len(raw) // shape[0]] * classes
            shape = [classes] + shape[1:]
        dtype, blob = convert(shape, raw)
        add(name, dtype, shape, blob)
        if name.endswith("running_var"):
            add(name.replace("running_var", "num_batches_tracked"), "I64", [], struct.pack("<q", 123))
    text = json.dumps(header).encode()
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
