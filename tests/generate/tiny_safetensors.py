"""Models with random weights as safetensors."""
import json
import random
import struct


def write_model(directory, config, shapes, integers=()):
    """A model with random weights, and tensors of integers."""
    draw = random.Random(1)
    header, data = {}, b""
    for name, values in integers:
        numbers = struct.pack(f"<{len(values)}q", *values)
        header[name] = {"dtype": "I64", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        middle = 1 if "norm" in name else 0
        numbers = struct.pack(f"<{count}f", *(draw.gauss(middle, 0.1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
