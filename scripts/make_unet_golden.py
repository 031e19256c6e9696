#!/usr/bin/env python3
"""Makes tests/checkpoint/golden/unet-theirs: a small diffusion U-Net in PyTorch whose modules are nested as those of
improved-diffusion, so that its tensors have the same names and shapes, and what it predicts, in float32.

    python3 -m venv venv && venv/bin/pip install torch safetensors
    venv/bin/python scripts/make_unet_golden.py

The folder has config.json, model.safetensors, and prediction.json with images, times and the prediction.

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/checkpoint/golden/unet-theirs"
CONFIG = {"architectures": ["FourfoldUNet"], "model_type": "fourfold-unet", "image_size": 12, "colours": 3, "channels": 4,
          "multipliers": [1, 2, 3], "blocks_a_level": 1, "attention_sizes": [6, 3], "heads": 4, "groups": 2,
          "dropout": 0.0, "learn_sigma": True, "noise": "cosine", "noise_steps": 1000, "torch_dtype": "float32"}


class Residual(nn.Module):
    """Two convolutions; the time scales and shifts what is between them."""
    def __init__(self, inputs, outputs, time, groups):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(groups, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(time, 2 * outputs))
        self.out_layers = nn.Sequential(nn.GroupNorm(groups, outputs), nn.SiLU(), nn.Dropout(0.0),
                                        nn.Conv2d(outputs, outputs, 3, padding=1))
        same = inputs == outputs
        self.skip_connection = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        hidden = self.in_layers(x)
        scale, shift = self.emb_layers(time)[:, :, None, None].chunk(2, dim=1)
        hidden = self.out_layers[0](hidden) * (1 + scale) + shift
        return self.skip_connection(x) + self.out_layers[1:](hidden)


class Attention(nn.Module):
    """Over pixels. The channels of qkv are [head][q|k|v][channel of the head]."""
    def __init__(self, channels, heads, groups):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x, time):
        flat = x.flatten(2)
        samples, channels, pixels = flat.shape
        size = channels // self.heads
        q, k, v = self.qkv(self.norm(flat)).view(samples, self.heads, 3, size, pixels).unbind(2)
        shares = torch.softmax(torch.einsum("nhct,nhcs->nhts", q, k) / math.sqrt(size), dim=-1)
        mixed = torch.einsum("nhts,nhcs->nhct", shares, v).reshape(samples, channels, pixels)
        return x + self.proj_out(mixed).view(x.shape)


class Half(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x, time):
        return self.op(x)


class Twice(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, time):
        return self.conv(x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3))


class First(nn.Conv2d):
    def forward(self, x, time):
        return super().forward(x)


def through(modules, x, time):
    for module in modules:
        x = module(x, time)
    return x


class UNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, groups, heads, size = c["channels"], c["groups"], c["heads"], c["image_size"]
        time = 4 * width
        self.width = width
        self.time_embed = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.input_blocks = nn.ModuleList([nn.ModuleList([First(c["colours"], width, 3, padding=1)])])
        now, left, levels = width, [width], c["multipliers"]
        for level, factor in enumerate(levels):
            for _ in range(c["blocks_a_level"]):
                block = [Residual(now, factor * width, time, groups)]
                now = factor * width
                if size in c["attention_sizes"]: block.append(Attention(now, heads, groups))
                self.input_blocks.append(nn.ModuleList(block))
                left.append(now)
            if level + 1 < len(levels):
                self.input_blocks.append(nn.ModuleList([Half(now)]))
                left.append(now)
                size //= 2
        self.middle_block = nn.ModuleList([Residual(now, now, time, groups), Attention(now, heads, groups),
                                           Residual(now, now, time, groups)])
        self.output_blocks = nn.ModuleList()
        for level, factor in reversed(list(enumerate(levels))):
            for i in range(c["blocks_a_level"] + 1):
                block = [Residual(now + left.pop(), factor * width, time, groups)]
                now = factor * width
                if size in c["attention_sizes"]: block.append(Attention(now, heads, groups))
                if level > 0 and i == c["blocks_a_level"]:
                    block.append(Twice(now))
                    size *= 2
                self.output_blocks.append(nn.ModuleList(block))
        outputs = c["colours"] * (2 if c["learn_sigma"] else 1)
        self.out = nn.Sequential(nn.GroupNorm(groups, now), nn.SiLU(), nn.Conv2d(now, outputs, 3, padding=1))

    def forward(self, x, times):
        half = self.width // 2
        angles = times[:, None] * torch.exp(-math.log(10000) * torch.arange(half) / half)[None]
        time = self.time_embed(torch.cat([angles.cos(), angles.sin()], dim=1))
        left = []
        for block in self.input_blocks:
            x = through(block, x, time)
            left.append(x)
        x = through(self.middle_block, x, time)
        for block in self.output_blocks: x = through(block, torch.cat([x, left.pop()], dim=1), time)
        return self.out(x)


def main():
    torch.manual_seed(1)
    net = UNet(CONFIG).eval()
    with torch.no_grad():  # so that no bias is zero and no scale is one
        for parameter in net.parameters(): parameter.add_(torch.randn_like(parameter) * 0.1)
    images = torch.randn(2, CONFIG["colours"], CONFIG["image_size"], CONFIG["image_size"])
    times = torch.tensor([3.0, 721.0])
    with torch.no_grad(): prediction = net(images, times)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    save_file(net.state_dict(), FOLDER / "model.safetensors")
    (FOLDER / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    flat = lambda t: [float(f"{v:.9g}") for v in t.permute(0, 2, 3, 1).flatten().tolist()]  # sample, pixel, channel
    text = json.dumps({"images": flat(images), "times": times.tolist(), "prediction": flat(prediction)},
                      separators=(",", ":"))
    (FOLDER / "prediction.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
