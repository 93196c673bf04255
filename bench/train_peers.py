#!/usr/bin/env python3
"""Tokens per second of a training step: build/train against the same model in PyTorch eager, one core each, in the same run.

Needs PyTorch (python3-torch) and build/train. The model is `small`: 64 wide, 4 heads, 4 layers, feed-forward 128, DEA in every
layer with temperature, class head, AdamW. The two take turns, and the figure is the ratio. Batches of the PyTorch side have the
shape of the C side's average batch, so that both see the same tokens a step.

usage: bench/train_peers.py [--steps N] [--rounds N]
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError:
    sys.exit("train_peers.py: needs PyTorch (python3-torch); the comparison did not run")

VOCAB, WIDTH, HEADS, LAYERS, FEED_FORWARD = 142, 64, 4, 4, 128


def normalise(energy, visible, count):
    """(3): z-scores over the keys a query sees."""
    energy = energy * visible
    mean = energy.sum(-1, keepdim=True) / count
    centred = (energy - mean) * visible
    variance = (centred * centred).sum(-1, keepdim=True) / count
    return centred / (variance.sqrt() + 1e-5)


class DualExpertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        d = WIDTH // HEADS
        self.d = d
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.w_rel = nn.Parameter(torch.stack([nn.init.orthogonal_(torch.empty(d, d)) for _ in range(HEADS)]))
        self.w_gate = nn.Parameter(torch.randn(HEADS, 2 * d + 2) * 0.2)
        self.c_gate = nn.Parameter(torch.full((HEADS,), -0.5))
        self.temperature = nn.Parameter(torch.full((HEADS,), 2.0))

    def forward(self, x, visible, count, label):
        B, T, _ = x.shape
        d = self.d
        q, k, v = self.qkv(x).view(B, T, 3, HEADS, d).permute(2, 0, 3, 1, 4)
        e0 = normalise(q @ k.transpose(-1, -2) / math.sqrt(d), visible, count)
        u = q @ self.w_rel.transpose(-1, -2)
        e1 = normalise((2 * u @ k.transpose(-1, -2) - (k * k).sum(-1).unsqueeze(-2)) / d, visible, count)
        qs, ks, s0, s1 = q.detach(), k.detach(), e0.detach(), e1.detach()
        w = self.w_gate
        z = (qs @ w[:, :d, None] + (ks @ w[:, d:2 * d, None]).transpose(-1, -2) + w[:, 2 * d, None, None] * s0
             + w[:, 2 * d + 1, None, None] * s1 + self.c_gate[:, None, None])
        hat = torch.sigmoid(z.clamp(-10, 10)).clamp(max=0.95)
        mix = hat.detach()
        scores = self.temperature[:, None, None] * ((1 - mix) * e0 + mix * e1)
        weights = torch.softmax(scores.masked_fill(visible == 0, -1e30), -1)
        o = (weights @ v).transpose(1, 2).reshape(B, T, WIDTH)
        return self.out(o), self.gate_loss(s0, s1, hat, visible, label) if label is not None else 0.0

    @staticmethod
    def gate_loss(e0, e1, hat, visible, label):
        """(7)-(13), all queries and distractors at once."""
        has = (~torch.isnan(label)).unsqueeze(1) & (visible > 0)
        alpha = torch.nan_to_num(label).unsqueeze(1)
        dense = (((hat - alpha) ** 2) * has).sum() / (has.sum() * HEADS / has.shape[1]).clamp(min=1)
        oracle = ((1 - alpha) * e0 + alpha * e1).masked_fill(~has, -1e30)
        target = oracle.argmax(-1, keepdim=True)
        rows = has.expand_as(e0).gather(-1, target)
        t0, t1, a, x = e0.gather(-1, target), e1.gather(-1, target), alpha.expand_as(e0).gather(-1, target), hat.gather(-1, target)
        slope = (t1 - t0) - (e1 - e0)
        ok = slope.abs() >= 1e-6
        beta = (e0 - t0) / torch.where(ok, slope + 1e-6 * slope.sign(), torch.ones_like(slope))
        valid = ok & (beta >= 0) & (beta <= 1) & rows & (visible > 0)
        valid = valid.scatter(-1, target, False)
        gap = a - beta
        spot = 1 + 2 * torch.exp(-torch.sqrt(gap * gap + 1e-4) / 0.1)
        decision = F.softplus(-torch.tanh(gap / 0.05) * (x - beta) / 0.1)
        photo = (spot * (x - a) ** 2 + 0.5 * decision) * valid
        return dense + photo.sum() / valid.sum().clamp(min=1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = DualExpertAttention()
        self.w1, self.w2 = nn.Linear(WIDTH, FEED_FORWARD), nn.Linear(FEED_FORWARD, WIDTH)

    def forward(self, x, visible, count, label):
        y, gate = self.attention(self.norm1(x), visible, count, label)
        x = x + y
        return x + self.w2(F.gelu(self.w1(self.norm2(x)))), gate


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.segment = nn.Embedding(VOCAB, WIDTH), nn.Embedding(2, WIDTH)
        self.place, self.sentence = nn.Embedding(128, WIDTH), nn.Embedding(128, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.pooler, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, token, segment, place, sentence, visible, count, label):
        x = self.token(token) + self.segment(segment) + self.place(place) + self.sentence(sentence)
        gate = 0.0
        for layer in self.layers:
            x, loss = layer(x, visible, count, label)
            gate = gate + loss / LAYERS
        return self.head(torch.tanh(self.pooler(self.norm(x)[:, 0]))), gate


def torch_tokens_per_second(rows, length, steps, with_gate):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Encoder()
    gate = [p for n, p in model.named_parameters() if "gate" in n]
    main = [p for n, p in model.named_parameters() if "gate" not in n]
    optimiser = torch.optim.AdamW([{"params": main, "lr": 1e-3}, {"params": gate, "lr": 1e-3}], betas=(0.9, 0.98), weight_decay=0.01)
    token = torch.randint(0, VOCAB, (rows, length))
    segment = (torch.arange(length) >= length - 9).long().expand(rows, length)
    place, sentence = (torch.arange(length) % 8).expand(rows, length), (torch.arange(length) // 8).expand(rows, length)
    visible = torch.ones(rows, 1, 1, length)
    answer = torch.randint(0, 2, (rows,))
    label = None
    if with_gate:
        label = torch.full((rows, length, length), float("nan"))
        label[:, 1:length - 9, length - 9:length - 1] = 0.85
    start = None
    for step in range(steps + 3):
        if step == 3:
            start = time.perf_counter()
        optimiser.zero_grad()
        logits, gate_loss = model(token, segment, place, sentence, visible, float(length), label)
        (F.cross_entropy(logits, answer) + gate_loss).backward()
        nn.utils.clip_grad_norm_(main, 1.0)
        if with_gate:
            nn.utils.clip_grad_norm_(gate, 1.0)
        optimiser.step()
    return rows * length * steps / (time.perf_counter() - start)


def train_tokens_per_second(program, steps, with_gate, threads=1):
    """Full stories of babi18 from step 0; also the average number of rows a step and tokens a row."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [program, "-p", "small", "--sources", "babi18@4", "--steps", str(steps + 3), "--set", "eval-every=1000000",
                   "--set", "dev-stories=1", "-t", str(threads), "-o", os.path.join(folder, "run"), "--log", log]
        subprocess.run(command + ([] if with_gate else ["--no-gate-loss"]), check=True, stdout=subprocess.DEVNULL)
        events = [json.loads(line) for line in open(log)]
        done = [e for e in events if e["event"] == "step"]
    tokens = sum(e["tokens"] for e in done[3:])
    rows = sum(e["rows"] for e in done[3:])
    return tokens / (done[-1]["seconds"] - done[2]["seconds"]), rows / len(done[3:]), tokens / rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "train")
    if not os.path.exists(program):
        sys.exit("train_peers.py: build/train is not there; run make first")
    print("tokens per second of a training step, small, median of %d rounds of %d steps" % (options.rounds, options.steps))
    for with_gate in (False, True):
        ours, theirs, two = [], [], []
        for _ in range(options.rounds):
            speed, rows, length = train_tokens_per_second(program, options.steps, with_gate)
            ours.append(speed)
            theirs.append(torch_tokens_per_second(round(rows), round(length), options.steps, with_gate))
            two.append(train_tokens_per_second(program, options.steps, with_gate, 2)[0])
        a, b, c = (sorted(x)[len(x) // 2] for x in (ours, theirs, two))
        print("%-18s build/train %7.0f   PyTorch %s eager %7.0f   ratio %.1f   two threads %7.0f, %.2f times one"
              % ("with gate loss" if with_gate else "without gate loss", a, torch.__version__, b, a / b, c, c / a))


if __name__ == "__main__":
    main()
