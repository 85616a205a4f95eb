"""Makes the first layers of a published configuration with made-up weights: as config.json for this
compiler and as GGUF (bf16) for llama.cpp. Needs numpy and the gguf package of llama.cpp's source.
Names of keys and tensors: gguf-py/gguf/constants.py there, architecture gemma4."""

import argparse
import json
import os
import sys


def slice_config(config, layers, vocab):
    text = config["text_config"]
    if layers > len(text["layer_types"]):
        sys.exit(f"error: --layers: expected at most {len(text['layer_types'])}, got {layers}")
    text["num_hidden_layers"] = layers
    text["layer_types"] = text["layer_types"][:layers]
    text["vocab_size"] = vocab
    for holder in (config, text):
        for key in ("bos_token_id", "eos_token_id", "pad_token_id", "image_token_id", "audio_token_id"):
            value = holder.get(key)
            ids = value if isinstance(value, list) else [value]
            if any(isinstance(i, int) and i >= vocab for i in ids):
                holder[key] = 0
    return config


def write_gguf(text, path):
    import gguf
    import numpy as np

    rng = np.random.default_rng(1)
    part = path + ".tmp"
    writer = gguf.GGUFWriter(part, "gemma4")
    sliding = [kind == "sliding_attention" for kind in text["layer_types"]]
    hidden, inner = text["hidden_size"], text["intermediate_size"]
    heads, vocab = text["num_attention_heads"], text["vocab_size"]
    local_dim, global_dim = text["head_dim"], text["global_head_dim"]
    local_kv, global_kv = text["num_key_value_heads"], text["num_global_key_value_heads"]
    rope = text["rope_parameters"]

    writer.add_name("slice")
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("none")
    writer.add_context_length(text.get("max_position_embeddings", 262144))
    writer.add_embedding_length(hidden)
    writer.add_block_count(len(sliding))
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv([local_kv if s else global_kv for s in sliding])
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    writer.add_sliding_window(text["sliding_window"])
    writer.add_sliding_window_pattern(sliding)
    writer.add_shared_kv_layers(0)
    writer.add_embedding_length_per_layer_input(0)
    writer.add_key_length(global_dim)
    writer.add_value_length(global_dim)
    writer.add_key_length_swa(local_dim)
    writer.add_value_length_swa(local_dim)
    writer.add_rope_dimension_count(global_dim)
    writer.add_rope_dimension_count_swa(local_dim)
    writer.add_rope_freq_base(float(rope["full_attention"]["rope_theta"]))
    writer.add_rope_freq_base_swa(float(rope["sliding_attention"]["rope_theta"]))
    if text.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(text["final_logit_softcapping"])

    def matrix(name, rows, columns):
        values = rng.standard_normal((rows, columns), dtype=np.float32)
        values *= np.float32(columns ** -0.5)
        upper = (values.view(np.uint32) >> 16).astype(np.uint16)
        writer.add_tensor(name, upper.view(np.uint8).reshape(rows, 2 * columns),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)

    def ones(name, size):
        writer.add_tensor(name, np.ones(size, np.float32))

    matrix("token_embd.weight", vocab, hidden)
    ones("output_norm.weight", hidden)
    # Only the first pairs of a global head turn: the others' frequencies are divided by 1e30.
    turning = int(global_dim * rope["full_attention"]["partial_rotary_factor"]) // 2
    writer.add_tensor("rope_freqs.weight", np.array(
        [1.0] * turning + [1e30] * (global_dim // 2 - turning), np.float32))
    for i, local in enumerate(sliding):
        dim, kv = (local_dim, local_kv) if local else (global_dim, global_kv)
        block = f"blk.{i}."
        ones(block + "attn_norm.weight", hidden)
        matrix(block + "attn_q.weight", heads * dim, hidden)
        matrix(block + "attn_k.weight", kv * dim, hidden)
        if local:  # global layers take the keys' projection for values
            matrix(block + "attn_v.weight", kv * dim, hidden)
        matrix(block + "attn_output.weight", hidden, heads * dim)
        ones(block + "attn_q_norm.weight", dim)
        ones(block + "attn_k_norm.weight", dim)
        ones(block + "post_attention_norm.weight", hidden)
        ones(block + "layer_output_scale.weight", 1)
        ones(block + "ffn_norm.weight", hidden)
        matrix(block + "ffn_gate.weight", inner, hidden)
        matrix(block + "ffn_up.weight", inner, hidden)
        matrix(block + "ffn_down.weight", hidden, inner)
        ones(block + "post_ffw_norm.weight", hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(part, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="config.json of a published model")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--config-out", required=True)
    parser.add_argument("--gguf-out", help="kept if it exists")
    options = parser.parse_args()
    with open(options.config, encoding="utf-8") as file:
        config = slice_config(json.load(file), options.layers, options.vocab)
    os.makedirs(os.path.dirname(options.config_out) or ".", exist_ok=True)
    with open(options.config_out, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    if options.gguf_out and not os.path.exists(options.gguf_out):
        write_gguf(config["text_config"], options.gguf_out)


main()
