#!/usr/bin/env python3
"""Makes the golden files of tests/checkpoint/golden: small GPT-2 and Llama models and the logits that
Hugging Face's transformers computes with them, in float32.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python scripts/make_model_golden.py build/release/fourfold

For each kind there are two folders: NAME-theirs, random weights saved by transformers (several files with an
index), and NAME-ours, a model that our program has trained for two steps and saved. Each has logits.json: the
tokens and the logits of transformers. Versions that the present files were made with are in versions.txt.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/checkpoint/golden"
TOKENS = [[3, 1, 4, 1, 5, 9, 2], [6, 53, 58, 97, 93, 23, 84]]


def write_logits(folder):
    """The logits of transformers for the model in the folder."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.tensor(TOKENS)).logits
    rows = [[float(f"{x:.9g}") for x in row] for row in logits.flatten(0, 1).tolist()]
    text = json.dumps({"tokens": TOKENS, "logits": rows}, separators=(",", ":"))
    (folder / "logits.json").write_text(text + "\n")


def theirs(name, config):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # so that no bias is zero and no scale is one
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    folder = GOLDEN / f"{name}-theirs"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="40KB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_logits(folder)


def ours(program, name, model):
    with tempfile.TemporaryDirectory() as work:
        text = pathlib.Path(work) / "text.txt"
        text.write_text("".join(chr(32 + (i * i + 7 * i) % 90) for i in range(20000)))
        config = pathlib.Path(work) / "run.toml"
        lines = ["[model]"] + [f"{key} = {json.dumps(value)}" for key, value in model.items()]
        lines += ["[data]", f'text = "{text}"', 'tokenizer = "bytes"']
        lines += ["[train]", "steps = 2", "batch = 4", "[optim]", "lr = 0.01", "warmup = 1"]
        config.write_text("\n".join(lines) + "\n")
        subprocess.run([program, "train", config, "--out", f"{work}/run"], check=True,
                       stdout=subprocess.DEVNULL)
        folder = GOLDEN / f"{name}-ours"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(f"{work}/run/{file}", folder / file)
    write_logits(folder)


def main():
    program = sys.argv[1]
    theirs("gpt2", transformers.GPT2Config(vocab_size=101, n_positions=12, n_embd=24, n_layer=2, n_head=4,
                                           resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    scaling = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    theirs("llama", transformers.LlamaConfig(vocab_size=101, hidden_size=32, intermediate_size=44,
                                             num_hidden_layers=2, num_attention_heads=4,
                                             num_key_value_heads=2, max_position_embeddings=64,
                                             rope_parameters=scaling, tie_word_embeddings=False))
    ours(program, "gpt2", {"width": 24, "heads": 4, "layers": 2, "context": 12, "vocab": 256})
    ours(program, "llama", {"kind": "llama", "width": 32, "heads": 4, "kv_heads": 2, "hidden": 44, "layers": 2,
                            "context": 12, "vocab": 256, "rope_theta": 500.0,
                            "rope_scaling": [8.0, 1.0, 4.0, 64], "tied": True})
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}\n"
    (GOLDEN / "versions.txt").write_text(versions)


if __name__ == "__main__":
    main()
