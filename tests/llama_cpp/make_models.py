#!/usr/bin/env python3
"""Make the GGUF files that the tests of examples/llama_cpp read: the example models, and some that are to be refused.

make_models.py MODELS_DIRECTORY OUTPUT_DIRECTORY
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/llama_cpp"))
import to_gguf  # noqa: E402
import gguf  # noqa: E402
import numpy as np  # noqa: E402

MODELS, OUTPUT = sys.argv[1:]
WIDTH, VOCABULARY = 32, 4096
TOKENIZER = os.path.join(MODELS, "tokenizer.model")


def made(name, make):
    """Calls `make` with a file that becomes NAME.gguf when it is whole, unless there is one."""
    final = os.path.join(OUTPUT, name + ".gguf")
    if not os.path.exists(final):
        make(final + ".part")
        os.replace(final + ".part", final)


def started(file_name, architecture):
    writer = gguf.GGUFWriter(file_name, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    to_gguf.add_tokenizer(writer, TOKENIZER, VOCABULARY)
    return writer


def finish(writer, shapes):
    random = np.random.default_rng(1)
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,), **shapes}
    for name, shape in shapes.items():
        writer.add_tensor(name, random.normal(0, 0.05, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def recurrent(file_name):
    inner, state, rank, kernel = 64, 16, 2, 4
    writer = started(file_name, "mamba")
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    finish(writer, {"blk.0.attn_norm.weight": (WIDTH,), "blk.0.ssm_in.weight": (2 * inner, WIDTH),
                    "blk.0.ssm_conv1d.weight": (inner, kernel), "blk.0.ssm_conv1d.bias": (inner,),
                    "blk.0.ssm_x.weight": (rank + 2 * state, inner), "blk.0.ssm_dt.weight": (inner, rank),
                    "blk.0.ssm_dt.bias": (inner,), "blk.0.ssm_a": (inner, state), "blk.0.ssm_d": (inner,),
                    "blk.0.ssm_out.weight": (WIDTH, inner)})


def sliding_window(file_name):
    heads, units = 2, 64
    writer = started(file_name, "gemma2")
    writer.add_feed_forward_length(units)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_key_length(WIDTH // heads)
    writer.add_value_length(WIDTH // heads)
    writer.add_sliding_window(8)
    writer.add_attn_logit_softcapping(50.0)
    writer.add_final_logit_softcapping(30.0)
    shapes = {f"blk.0.{name}.weight": (WIDTH,)
              for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")}
    shapes.update({f"blk.0.attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")})
    shapes.update({"blk.0.ffn_gate.weight": (units, WIDTH), "blk.0.ffn_up.weight": (units, WIDTH),
                   "blk.0.ffn_down.weight": (WIDTH, units)})
    finish(writer, shapes)


def other_vocabulary(file_name):
    """The draft with two tokens exchanged."""
    class exchanged(gguf.GGUFWriter):
        def add_token_list(self, tokens):
            tokens[300], tokens[301] = tokens[301], tokens[300]
            super().add_token_list(tokens)

    plain, gguf.GGUFWriter = gguf.GGUFWriter, exchanged
    try:
        to_gguf.convert(os.path.join(MODELS, "draft"), file_name, "f32", None)
    finally:
        gguf.GGUFWriter = plain


def cut_short(file_name):
    with open(os.path.join(OUTPUT, "draft-f32.gguf"), "rb") as whole, open(file_name, "wb") as part:
        part.write(whole.read(1 << 20))


os.makedirs(OUTPUT, exist_ok=True)
for model, types in (("target", ("f32", "bf16", "f16", "q8_0")), ("draft", ("f32", "q8_0")), ("draft-tiny", ("f32",))):
    for kind in types:
        made(f"{model}-{kind}", lambda name: to_gguf.convert(os.path.join(MODELS, model), name, kind, None))
made("recurrent", recurrent)
made("sliding_window", sliding_window)
made("other_vocabulary", other_vocabulary)
made("cut_short", cut_short)
