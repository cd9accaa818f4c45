#!/usr/bin/env python3
"""Convert a model in the Hugging Face Llama layout, such as the example models, to GGUF for llama.cpp.

    to_gguf.py MODEL_DIRECTORY OUTPUT.gguf [--type f32|f16|bf16|q8_0|q4_0] [--tokenizer tokenizer.model]

MODEL_DIRECTORY has config.json and one model.safetensors; tokenizer.model, a SentencePiece model of kind BPE, lies in
it or beside it. f32 keeps every number of an example model as it is; the vectors of the norms are f32 in every type.
Q4_K and others are made from the result by llama.cpp's own llama_model_quantize (llama-quantize).

Needs numpy and gguf (pip install gguf).
"""
import argparse
import json
import os
import struct
import sys

try:
    import gguf
    import numpy as np
except ImportError as missing:
    sys.exit(f"to_gguf.py: {missing}: pip install gguf")

TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0,
         "q4_0": gguf.GGMLQuantizationType.Q4_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
              "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
              "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}
LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OTHERS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
          "lm_head.weight": "output.weight"}


def refuse(reason):
    sys.exit(f"to_gguf.py: {reason}")


def tensors_of(file_name):
    """Name and float32 array of each tensor of a safetensors file."""
    with open(file_name, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        raw = data[begin:end]
        if tensor["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        elif tensor["dtype"] in ("F16", "F32"):
            values = np.frombuffer(raw, "<f2" if tensor["dtype"] == "F16" else "<f4").astype(np.float32)
        else:
            refuse(f"{file_name}: tensor {name} is {tensor['dtype']}; BF16, F16 or F32 can be converted")
        yield name, values.reshape(tensor["shape"])


def gguf_name(name):
    if name in OTHERS:
        return OTHERS[name]
    parts = name.split(".")  # model.layers.N.what.weight
    what = ".".join(parts[3:-1])
    if parts[:2] != ["model", "layers"] or parts[-1] != "weight" or what not in LAYER:
        refuse(f"tensor {name}: a Llama model has none of this name")
    return f"blk.{parts[2]}.{LAYER[what]}.weight"


def interleaved(weight, heads):
    """The rows of each head from two halves, as Hugging Face rotates them, to pairs, as llama.cpp does."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def fields(raw):
    """Number and value of each field of a Protocol Buffers message: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(raw):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or (varint() if kind == 2 else refuse("tokenizer.model cannot be read"))
        yield key >> 3, raw[at:at + size]
        at += size


def add_tokenizer(writer, file_name, vocabulary):
    with open(file_name, "rb") as file:
        model = list(fields(file.read()))
    # Fields of SentencePiece's ModelProto: 1 a piece, 2 the trainer's settings, 3 the normaliser's.
    tokens, scores, types = [], [], []
    for number, piece in model:
        if number == 1:
            of = dict(fields(piece))
            tokens.append(of[1])
            scores.append(struct.unpack("<f", of[2])[0] if 2 in of else 0.0)
            types.append(of.get(3, int(gguf.TokenType.NORMAL)))
    trainer = next((dict(fields(value)) for number, value in model if number == 2), {})
    normalizer = next((dict(fields(value)) for number, value in model if number == 3), {})
    if trainer.get(3, 1) != 2:
        refuse(f"{file_name}: not of kind BPE")
    if len(tokens) != vocabulary:
        refuse(f"{file_name}: has {len(tokens)} pieces, but the model's vocab_size is {vocabulary}")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(trainer.get(40, 0))
    writer.add_bos_token_id(trainer.get(41, 1))
    writer.add_eos_token_id(trainer.get(42, 2))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(bool(normalizer.get(3, 1)))


def find_tokenizer(directory):
    for place in (directory, os.path.dirname(os.path.abspath(directory))):
        file_name = os.path.join(place, "tokenizer.model")
        if os.path.exists(file_name):
            return file_name
    return refuse(f"{directory}: no tokenizer.model in it or beside it; name one with --tokenizer")


def convert(directory, output, kind, tokenizer):
    for name in ("config.json", "model.safetensors"):
        if not os.path.exists(os.path.join(directory, name)):
            refuse(f"{directory}: has no {name}")
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if config.get("model_type") != "llama":
        refuse(f"{directory}: model_type is {config.get('model_type')}, not llama")
    for key in ("rope_scaling", "rope_parameters"):
        given = config.get(key) or {}
        plain = {"rope_type": "default", "type": "default", "partial_rotary_factor": 1.0}
        if any(name != "rope_theta" and value != plain.get(name) for name, value in given.items()):
            refuse(f"{directory}: {key} is not converted")
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(output, "llama")
    writer.add_name(os.path.basename(os.path.abspath(directory)))
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    # Files of Transformers 5 have it in rope_parameters.
    writer.add_rope_freq_base((config.get("rope_parameters") or {}).get("rope_theta", config.get("rope_theta", 10000.0)))
    add_tokenizer(writer, tokenizer or find_tokenizer(directory), config["vocab_size"])
    for name, values in tensors_of(os.path.join(directory, "model.safetensors")):
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        if ".q_proj." in name or ".k_proj." in name:
            values = interleaved(values, heads if ".q_proj." in name else kv_heads)
        of_type = TYPES["f32"] if values.ndim == 1 else TYPES[kind]
        try:
            stored = gguf.quants.quantize(values, of_type)
        except gguf.quants.QuantError:  # rows that are not whole blocks
            of_type = TYPES["f16"]
            stored = gguf.quants.quantize(values, of_type)
        writer.add_tensor(gguf_name(name), stored, raw_dtype=of_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="MODEL_DIRECTORY")
    parser.add_argument("output", metavar="OUTPUT.gguf")
    parser.add_argument("--type", choices=sorted(TYPES), default="f32", help="of the matrices (default: f32)")
    parser.add_argument("--tokenizer", help="tokenizer.model (default: in the directory or beside it)")
    options = parser.parse_args()
    convert(options.directory, options.output, options.type, options.tokenizer)


if __name__ == "__main__":
    main()
