#!/usr/bin/env python3
"""Step time of the small Llama of configs/llama-small.toml in Fourfold and in PyTorch, in turns:

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/llama_torch.py build/release/fourfold [--cores N] [--rounds R] [--compile]

Both train with AdamW in float32 on 16 sequences of 128 tokens. On one core each has one thread. On several cores
Fourfold runs once as one rank with so many threads and once as so many ranks, and PyTorch as one process with so
many threads. PyTorch runs a plain model with scaled_dot_product_attention, eager, and compiled by torch.compile
if that is asked for. The times are medians of the steps of a round without its first ones; the best round counts.
Compare ratios, since the machine may be shared: the load before and after is printed.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--cores", type=int, default=1)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--compile", action="store_true")
OPTIONS = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(OPTIONS.cores)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

VOCAB, WIDTH, HEADS, KV, HIDDEN, LAYERS, CONTEXT, BATCH = 4096, 256, 8, 2, 704, 4, 128, 16
SIZE = WIDTH // HEADS
STEPS = 8


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV) * SIZE, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, h, cos, sin):
        n, c, _ = h.shape
        q, k, v = self.qkv(self.norm1(h)).split((HEADS * SIZE, KV * SIZE, KV * SIZE), -1)
        q = rotated(q.view(n, c, HEADS, SIZE).transpose(1, 2), cos, sin)
        k = rotated(k.view(n, c, KV, SIZE).transpose(1, 2), cos, sin)
        v = v.view(n, c, KV, SIZE).transpose(1, 2)
        k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).reshape(n, c, WIDTH))
        gate, up = self.gate_up(self.norm2(h)).chunk(2, -1)
        return h + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        nn.init.normal_(self.table.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, 1e-5)
        speeds = 10000 ** (-torch.arange(0, SIZE, 2) / SIZE)
        angles = torch.outer(torch.arange(CONTEXT), speeds).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens, targets):
        h = self.table(tokens)
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        logits = F.linear(self.norm(h), self.table.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def torch_step(compiled):
    torch.set_num_threads(OPTIONS.cores)
    torch.manual_seed(1)
    model = Llama()
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    times = []
    for i in range(STEPS + 2):
        tokens = torch.randint(0, VOCAB, (BATCH, CONTEXT + 1))
        begin = time.perf_counter()
        loss = run(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def our_step(ranks):
    root = pathlib.Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as work:
        command = [OPTIONS.program, "train", root / "configs/llama-small.toml", "--set", f"train.steps={STEPS + 2}",
                   "--set", "optim.warmup=1", "--set", "data.validation=0", "--out", f"{work}/run"]
        environment = dict(os.environ)
        if ranks > 1:
            command += ["--ranks", str(ranks)]
            for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
                environment.pop(variable)  # each rank takes its share of the cores
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        lines = pathlib.Path(f"{work}/run/metrics.jsonl").read_text().splitlines()
        times = [json.loads(line)["seconds"] for line in lines if "seconds" in json.loads(line)]
    return statistics.median(times[2:])


def main():
    kinds = {"Fourfold": lambda: our_step(1)}
    if OPTIONS.cores > 1:
        kinds[f"Fourfold, {OPTIONS.cores} ranks"] = lambda: our_step(OPTIONS.cores)
    kinds["PyTorch eager"] = lambda: torch_step(False)
    if OPTIONS.compile:
        kinds["PyTorch compiled"] = lambda: torch_step(True)
    print(f"{OPTIONS.cores} cores, PyTorch {torch.__version__.split('+')[0]}, best of {OPTIONS.rounds} rounds,"
          f" load {os.getloadavg()[0]:.2f}")
    best = {}
    for _ in range(OPTIONS.rounds):
        for name, step in kinds.items():
            best[name] = min(best.get(name, 1e9), step())
    for name, seconds in best.items():
        print(f"{name:18} {1000 * seconds:8.1f} ms a step, {seconds / best['Fourfold']:.2f} times Fourfold's")
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
