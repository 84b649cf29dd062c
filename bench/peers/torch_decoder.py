#!/usr/bin/env python3
"""torch_decoder.py --shape NAME [--compile MODE ...] [--out FILE]: a lean PyTorch decoder, timed as `ida-train bench step`.

bf16 autocast-free: f32 masters in a fused AdamW, bf16 working weights, f32 gradient accumulation would double torch's
traffic and is not used: gradients accumulate in bf16, which is torch's advantage. One document a row. Each compile mode
is timed; the best counts.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "ember-30m": dict(layers=8, hidden=512, heads=8, kv=8, inter=1536, vocab=8192, seq=1024, micro=64, accum=4),
    "smollm2-135m": dict(layers=30, hidden=576, heads=9, kv=3, inter=1536, vocab=49152, seq=2048, micro=16, accum=4),
    "smollm2-1.7b": dict(layers=24, hidden=2048, heads=32, kv=32, inter=8192, vocab=49152, seq=2048, micro=8, accum=4),
}


def rope(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads, self.kv, self.dim = s["heads"], s["kv"], s["hidden"] // s["heads"]
        self.norm1, self.norm2 = nn.RMSNorm(s["hidden"], eps=1e-5), nn.RMSNorm(s["hidden"], eps=1e-5)
        self.qkv = nn.Linear(s["hidden"], (self.heads + 2 * self.kv) * self.dim, bias=False)
        self.o = nn.Linear(s["hidden"], s["hidden"], bias=False)
        self.gate_up = nn.Linear(s["hidden"], 2 * s["inter"], bias=False)
        self.down = nn.Linear(s["inter"], s["hidden"], bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.dim, self.kv * self.dim, self.kv * self.dim], dim=-1)
        q = rope(q.view(b, t, self.heads, self.dim).transpose(1, 2), cos, sin)
        k = rope(k.view(b, t, self.kv, self.dim).transpose(1, 2), cos, sin)
        v = v.view(b, t, self.kv, self.dim).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.o(o.transpose(1, 2).reshape(b, t, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Embedding(s["vocab"], s["hidden"])
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.norm = nn.RMSNorm(s["hidden"], eps=1e-5)
        dim = s["hidden"] // s["heads"]
        angle = torch.outer(torch.arange(s["seq"]).float(), 1e4 ** (-torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("cos", angle.cos().bfloat16(), persistent=False)
        self.register_buffer("sin", angle.sin().bfloat16(), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), labels.view(-1))


class MasterAdamW:
    """Fused AdamW over f32 masters; bf16 weights are their rounded copies."""

    def __init__(self, model):
        self.weights = list(model.parameters())
        self.masters = [w.detach().float().clone() for w in self.weights]
        self.inner = torch.optim.AdamW(self.masters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    @torch.no_grad()
    def step(self, clip):
        norm = torch.nn.utils.get_total_norm([w.grad for w in self.weights])
        scale = (clip / (norm + 1e-6)).clamp(max=1.0)
        for master, weight in zip(self.masters, self.weights):
            master.grad = weight.grad.float().mul_(scale)
        self.inner.step()
        torch._foreach_copy_(self.weights, self.masters)
        for master, weight in zip(self.masters, self.weights):
            master.grad = weight.grad = None
        return norm


def run(shape, mode, steps, warmup, backend):
    s = SHAPES[shape]
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Decoder(s).bfloat16()
        ids = torch.randint(0, s["vocab"], (s["micro"], s["seq"]))
        labels = torch.randint(0, s["vocab"], (s["micro"], s["seq"]))
    optimizer = MasterAdamW(model)
    call = model if mode == "eager" else torch.compile(model, mode=None if mode == "default" else mode)
    times = []
    backends = {"cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION, "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}
    with torch.nn.attention.sdpa_kernel(backends[backend]):
        for step in range(warmup + steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(s["accum"]):
                loss = call(ids, labels) / s["accum"]
                loss.backward()
            optimizer.step(1.0)
            torch.cuda.synchronize()
            if step >= warmup:
                times.append(1e3 * (time.perf_counter() - start))
    median = sorted(times)[len(times) // 2]
    tokens = s["micro"] * s["seq"] * s["accum"]
    return dict(shape=shape, mode=mode, attention=backend, step_ms=times, median_step_ms=median,
                tokens_per_s=tokens / median * 1e3, peak_gib=torch.cuda.max_memory_reserved() / 2**30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--compile", nargs="+", default=["default", "max-autotune-no-cudagraphs"])
    parser.add_argument("--attention", nargs="+", default=["cudnn", "flash"])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    results = []
    for mode in options.compile:
        for backend in options.attention:
            torch.cuda.reset_peak_memory_stats()
            results.append(run(options.shape, mode, options.steps, options.warmup, backend))
            torch.cuda.empty_cache()
            torch._dynamo.reset()
            r = results[-1]
            print(f"{options.shape} {mode} {backend}: {r['median_step_ms']:.1f} ms, {r['tokens_per_s']:.0f} tokens/s, "
                  f"{r['peak_gib']:.1f} GiB", flush=True)
    if options.out:
        record = dict(torch=torch.__version__, device=torch.cuda.get_device_name(), results=results)
        with open(options.out, "w") as file:
            json.dump(record, file, indent=2)


if __name__ == "__main__":
    main()
