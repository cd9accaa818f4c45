"""A chat model of random weights in a GGUF file, with the bytes and a few merges as tokens."""
import array
import random
import struct

TEMPLATE = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
            "Be brief<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
            "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def spelling(data):
    printable = [b for b in range(256) if 0x20 < b < 0x7F or 0xA0 < b != 0xAD]
    others = [b for b in range(256) if b not in printable]
    return "".join(chr(b) if b in printable else chr(0x100 + others.index(b)) for b in data)


def sized(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(one):
    """A value of metadata with its type."""
    if isinstance(one, bool):
        return struct.pack("<I?", 7, one)
    if isinstance(one, int):
        return struct.pack("<II", 4, one)
    if isinstance(one, float):
        return struct.pack("<If", 6, one)
    if isinstance(one, str):
        return struct.pack("<I", 8) + sized(one)
    if isinstance(one[0], str):
        return struct.pack("<IIQ", 9, 8, len(one)) + b"".join(map(sized, one))
    return struct.pack("<IIQ", 9, 5, len(one)) + struct.pack(f"<{len(one)}i", *one)


def write(path, template=TEMPLATE, context=512):
    """Hidden 64, two layers."""
    hidden, wide, kv = 64, 96, 32
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), (" ", "w")]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [spelling(bytes([b])) for b in range(256)]
    tokens += [spelling((left + right).encode()) for left, right in merges]
    metadata = {
        "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": context,
        "llama.embedding_length": hidden, "llama.feed_forward_length": wide, "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3] + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": [f"{spelling(left.encode())} {spelling(right.encode())}" for left, right in merges],
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": False}
    if template:
        metadata["tokenizer.chat_template"] = template
    shapes = {"token_embd.weight": (hidden, len(tokens)), "output_norm.weight": (hidden,)}
    for layer in ("blk.0.", "blk.1."):
        shapes |= {layer + name: shape for name, shape in {
            "attn_norm.weight": (hidden,), "attn_q.weight": (hidden, hidden), "attn_k.weight": (hidden, kv),
            "attn_v.weight": (hidden, kv), "attn_output.weight": (hidden, hidden), "ffn_norm.weight": (hidden,),
            "ffn_gate.weight": (hidden, wide), "ffn_up.weight": (hidden, wide), "ffn_down.weight": (wide, hidden)}.items()}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    head += b"".join(sized(key) + value(one) for key, one in metadata.items())
    numbers = random.Random(1)
    data = b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        head += sized(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        some = [1.0] * count if len(shape) == 1 else [numbers.gauss(0, 0.2) for _ in range(count)]
        data += array.array("f", some).tobytes()
    path.write_bytes(head + bytes(-len(head) % 32) + data)
