#!/usr/bin/env python3
"""Step time of a diffusion U-Net in Fourfold and in PyTorch, in turns:

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/unet_torch.py build/release/fourfold [--ranks N] [--grids data=2,z=2] [--channels C]
                    [--batch B] [--precisions float32,bf16] [--rounds R]

The network is that of configs/unet-fashion.toml (28 x 28 pixels, three levels, attention at 7 x 7), with as many
channels as asked for. Both train with AdamW on the same images of Debian's dataset-fashion-mnist, one thread a
process. Fourfold runs on N ranks, once for each grid of --grids (those along one axis, with commas between them).
PyTorch runs as N processes with DistributedDataParallel over gloo, channels_last, fused AdamW, in bf16 with
autocast. The times are medians of the steps of a round without its first ones; the best round counts. Compare
ratios, since the machine may be shared: the load before and after is printed.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
IMAGES = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
SIZE, MULTIPLIERS, BLOCKS, ATTENTION, HEADS, GROUPS, NOISE_STEPS = 28, (1, 2, 2), 1, (7,), 4, 16, 1000
STEPS, SKIPPED = 8, 2

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--grids", default="data=2,z=2,x=2,y=2")
parser.add_argument("--channels", type=int, default=64)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--precisions", default="float32,bf16")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--process", help=argparse.SUPPRESS)  # PyTorch's process of that number
parser.add_argument("--port", default="29571", help=argparse.SUPPRESS)
OPTIONS = parser.parse_args()


def torch_process(precision, number):
    """Trains as one of the processes; the first prints the median of its steps."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F

    class Residual(nn.Module):
        def __init__(self, channels, out, embedding):
            super().__init__()
            self.norm_in, self.norm_out = nn.GroupNorm(GROUPS, channels), nn.GroupNorm(GROUPS, out)
            self.conv_in = nn.Conv2d(channels, out, 3, padding=1)
            self.conv_out = nn.Conv2d(out, out, 3, padding=1)
            self.film = nn.Linear(embedding, 2 * out)
            self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()
            nn.init.zeros_(self.conv_out.weight)

        def forward(self, x, embedding):
            h = self.conv_in(F.silu(self.norm_in(x)))
            scale, shift = self.film(F.silu(embedding))[:, :, None, None].chunk(2, 1)
            h = F.silu(self.norm_out(h) * (1 + scale) + shift)
            return self.skip(x) + self.conv_out(h)

    class Attention(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm = nn.GroupNorm(GROUPS, channels)
            self.qkv = nn.Conv2d(channels, 3 * channels, 1)
            self.out = nn.Conv2d(channels, channels, 1)
            nn.init.zeros_(self.out.weight)

        def forward(self, x, _):
            n, c, height, width = x.shape
            rows = self.qkv(self.norm(x)).permute(0, 2, 3, 1).reshape(n, height * width, HEADS, 3 * c // HEADS)
            q, k, v = rows.transpose(1, 2).chunk(3, -1)
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, height, width, c)
            return x + self.out(mixed.permute(0, 3, 1, 2))

    class Down(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

        def forward(self, x, _):
            return self.conv(x)

    class Up(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv = nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x, _):
            return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))

    class UNet(nn.Module):
        def __init__(self, channels):
            super().__init__()
            embedding = 4 * channels
            self.frequencies = channels // 2
            self.time = nn.Sequential(nn.Linear(channels, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
            self.first = nn.Conv2d(1, channels, 3, padding=1)
            self.down, self.up = nn.ModuleList(), nn.ModuleList()
            now, left, size = channels, [channels], SIZE
            for level, multiplier in enumerate(MULTIPLIERS):
                for _ in range(BLOCKS):
                    out = multiplier * channels
                    self.down.append(self.block(now, out, embedding, size))
                    now = out
                    left.append(now)
                if level + 1 < len(MULTIPLIERS):
                    self.down.append(nn.ModuleList([Down(now)]))
                    left.append(now)
                    size //= 2
            self.middle = nn.ModuleList([Residual(now, now, embedding), Attention(now), Residual(now, now, embedding)])
            for level, multiplier in reversed(list(enumerate(MULTIPLIERS))):
                for i in range(BLOCKS + 1):
                    out = multiplier * channels
                    layers = self.block(now + left.pop(), out, embedding, size)
                    now = out
                    if level > 0 and i == BLOCKS:
                        layers.append(Up(now))
                        size *= 2
                    self.up.append(layers)
            self.norm, self.last = nn.GroupNorm(GROUPS, now), nn.Conv2d(now, 1, 3, padding=1)
            nn.init.zeros_(self.last.weight)

        @staticmethod
        def block(channels, out, embedding, size):
            layers = [Residual(channels, out, embedding)]
            return nn.ModuleList(layers + ([Attention(out)] if size in ATTENTION else []))

        def forward(self, x, times):
            speeds = torch.exp(-math.log(10000) * torch.arange(self.frequencies) / self.frequencies)
            angles = times[:, None].float() * speeds
            embedding = self.time(torch.cat((angles.cos(), angles.sin()), 1))
            h = self.first(x)
            left = [h]
            for layers in self.down:
                for layer in layers:
                    h = layer(h, embedding)
                left.append(h)
            for layer in self.middle:
                h = layer(h, embedding)
            for layers in self.up:
                h = torch.cat((h, left.pop()), 1)
                for layer in layers:
                    h = layer(h, embedding)
            return self.last(F.silu(self.norm(h)))

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{OPTIONS.port}", rank=number,
                            world_size=OPTIONS.ranks)
    with gzip.open(IMAGES) as file:
        data = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8).view(-1, 1, SIZE, SIZE)
    model = UNet(OPTIONS.channels).to(memory_format=torch.channels_last)
    parameters = sum(p.numel() for p in model.parameters())
    net = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if OPTIONS.ranks > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0, fused=True)
    level = torch.cos((torch.arange(NOISE_STEPS) / NOISE_STEPS + 0.008) / 1.008 * math.pi / 2) ** 2
    mean = [p.detach().clone() for p in model.parameters()]
    local = OPTIONS.batch // OPTIONS.ranks
    times = []
    for step in range(STEPS + SKIPPED):
        first = (step * OPTIONS.ranks + number) * local
        dist.barrier()
        begin = time.perf_counter()
        images = data[first:first + local].float() / 127.5 - 1
        t = torch.randint(0, NOISE_STEPS, (local,))
        noise = torch.randn_like(images)
        kept = level[t][:, None, None, None]
        noised = (kept.sqrt() * images + (1 - kept).sqrt() * noise).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            predicted = net(noised, t)
        F.mse_loss(predicted.float(), noise).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(mean, list(model.parameters()), 0.005)
        times.append(time.perf_counter() - begin)
    dist.destroy_process_group()
    if number == 0:
        print(json.dumps({"seconds": statistics.median(times[SKIPPED:]), "parameters": parameters,
                          "version": torch.__version__.split("+")[0]}))


def one_thread():
    return dict(os.environ, **{variable: "1" for variable in THREADS})


def torch_step(precision):
    port = str(20000 + os.getpid() % 20000 + len(precision))
    def command(number):
        # A process keeps to its core, as a rank of Fourfold does.
        return ["taskset", "-c", str(number), sys.executable, __file__, *sys.argv[1:], "--process",
                f"{precision}:{number}", "--port", port]
    others = [subprocess.Popen(command(i), env=one_thread(), stdout=subprocess.DEVNULL)
              for i in range(1, OPTIONS.ranks)]
    out = subprocess.run(command(0), check=True, env=one_thread(), stdout=subprocess.PIPE, text=True).stdout
    for other in others:
        other.wait()
    return json.loads(out.splitlines()[-1])


def our_step(precision, grid):
    root = pathlib.Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as work:
        settings = {"model.channels": OPTIONS.channels, "train.batch": OPTIONS.batch, "train.precision": precision,
                    "train.steps": STEPS + SKIPPED, "optim.warmup": 1, "data.validation": 0, "train.draw_every": 0,
                    "train.validate_batches": 1, "train.validate_every": 0, "parallel.strategy": "4d"}
        command = [OPTIONS.program, "train", root / "configs/unet-fashion.toml", "--out", f"{work}/run",
                   "--json", f"{work}/run.json", "--grid", grid]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        environment = {name: value for name, value in os.environ.items() if name not in THREADS}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        results = json.loads(pathlib.Path(f"{work}/run.json").read_text())
    times = [step["seconds"] for step in results["steps"]]
    return {"seconds": statistics.median(times[SKIPPED:]), "parameters": results["run"]["parameters"]}


def main():
    if OPTIONS.process:
        precision, number = OPTIONS.process.split(":")
        return torch_process(precision, int(number))
    grids = OPTIONS.grids.split(",") if OPTIONS.ranks > 1 else ["data=1"]
    kinds = {}
    for precision in OPTIONS.precisions.split(","):
        kinds[precision, "PyTorch"] = lambda precision=precision: torch_step(precision)
        for grid in grids:
            kinds[precision, grid] = lambda precision=precision, grid=grid: our_step(precision, grid)
    print(f"{OPTIONS.ranks} processes, {OPTIONS.channels} channels, batch {OPTIONS.batch}, best of {OPTIONS.rounds}"
          f" rounds, load {os.getloadavg()[0]:.2f}")
    best, about = {}, {}
    for _ in range(OPTIONS.rounds):
        for name, step in kinds.items():
            about[name] = step()
            best[name] = min(best.get(name, 1e9), about[name]["seconds"])
            print(f"    {' '.join(name)}: {1000 * about[name]['seconds']:.1f} ms", flush=True)
    for (precision, kind), seconds in best.items():
        against = best[precision, "PyTorch"] / seconds
        label = f"PyTorch {about[precision, kind]['version']}" if kind == "PyTorch" else f"Fourfold {kind}"
        print(f"{precision:8} {label:18} {about[precision, kind]['parameters']:10,} parameters"
              f" {1000 * seconds:8.1f} ms a step, {against:.2f} times as fast as PyTorch")
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
