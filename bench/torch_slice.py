"""Measures PyTorch on the model that compare-llama.sh makes: prefill and decode of transformers' Gemma 4
in bf16 with made-up weights, tokens a second, best and median of the rounds. Needs torch and transformers.

    python3 bench/torch_slice.py build/compare-llama/slice-6-4096/config.json

Ours beside it: gemma-bench model build/compare-llama/slice-6-4096-1040-bf16.gemma --decode 16
For people; no test runs it."""

import argparse
import json
import os
import statistics
import sys
import time


def made_up(config):
    """The model, every weight a small number: what it computes is of no interest."""
    import torch
    from transformers import Gemma4ForCausalLM
    from transformers.models.gemma4.configuration_gemma4 import Gemma4TextConfig

    with open(config, encoding="utf-8") as file:
        text = json.load(file)["text_config"]
    for key in ("model_type", "dtype", "torch_dtype", "architectures"):
        text.pop(key, None)
    text["final_logit_softcapping"] = float(text["final_logit_softcapping"])
    with torch.device("meta"):
        model = Gemma4ForCausalLM(Gemma4TextConfig(**text)).to(torch.bfloat16)
    model = model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.02, 0.02)
        for buffer in model.buffers():
            buffer.fill_(0.01)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=16)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("error: torch is needed: pip install torch transformers")
    torch.set_num_threads(options.threads)
    model = made_up(options.config)
    parameters = sum(p.numel() for p in model.parameters())
    ids = torch.arange(options.prompt)[None] % model.config.vocab_size
    prefill, decode = [], []
    with torch.inference_mode():
        for index in range(options.rounds + 1):  # the first one is a rehearsal
            begin = time.perf_counter()
            result = model(ids, use_cache=True, logits_to_keep=1)
            middle = time.perf_counter()
            for _ in range(options.decode):
                token = result.logits[:, -1:].argmax(-1)
                result = model(token, past_key_values=result.past_key_values, use_cache=True)
            end = time.perf_counter()
            if index:
                prefill.append(options.prompt / (middle - begin))
                decode.append(options.decode / (end - middle))
            print(f"round {index} of {options.rounds}", file=sys.stderr)
    print(f"torch {torch.__version__}, {parameters / 1e9:.3f} G parameters in bf16, {options.threads} threads; "
          "best (median)")
    for name, rates in (("prefill", prefill), ("decode", decode)):
        print(f"  {name:8} {max(rates):8.2f} ({statistics.median(rates):.2f}) tokens/s")


if __name__ == "__main__":
    main()
