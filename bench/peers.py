#!/usr/bin/env python3
"""dea.h against PyTorch on one core: DEA eager, DEA under torch.compile, and standard attention, in alternation with ours.

usage: bench/peers.py [--seq 256,1024] [--head-dim 64] [--heads 8] [--rounds 5] [--no-compile]
Builds a shared library of dea.h with cc in a temporary folder. Every peer's output must match ours (standard attention
computes something else and is only timed). Fastest of the rounds; ratios are peer/ours, so above 1 means ours is faster.
Without PyTorch it says so and exits 1.
"""
import argparse
import ctypes
import math
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    sys.exit("peers.py: PyTorch is not installed: nothing was compared (pip install torch)")

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHIM = r"""
#define DEA_IMPLEMENTATION
#define DEA_STATIC
#define DEA_NO_BLAS
#include "dea.h"
#include <stdlib.h>
static dea_attention problem(int heads, int seq, int d, float **x) {
    dea_attention a = dea_attention_init(1, heads, seq, d);
    a.q = x[0], a.k = x[1], a.v = x[2], a.w_rel = x[3], a.w_gate = x[4], a.c_gate = x[5];
    a.threads.count = 1;
    return a;
}
size_t bytes(int heads, int seq, int d) {
    float *none[6] = {0};
    dea_attention a = problem(heads, seq, d, none);
    return dea_backward_workspace(&a) + dea_forward_workspace(&a);
}
/* x: q k v w_rel w_gate c o saved d_o dq dk dv dw; passes: 1 forward, 2 with backward */
int run(int heads, int seq, int d, float **x, void *workspace, size_t size, int passes) {
    dea_attention a = problem(heads, seq, d, x);
    dea_status s = dea_forward(&a, x[6], passes > 1 ? x[7] : NULL, workspace, size);
    if (s != DEA_OK || passes < 2) return (int)s;
    dea_gradients g = {x[9], x[10], x[11], x[12], NULL, NULL, NULL};
    return (int)dea_backward(&a, x[6], x[7], x[8], &g, workspace, size);
}
"""


def library(folder):
    source, out = os.path.join(folder, "shim.c"), os.path.join(folder, "shim.so")
    with open(source, "w") as f:
        f.write(SHIM)
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-w", "-fPIC", "-shared", "-I", HERE, source, "-lm", "-o", out],
                   check=True)
    lib = ctypes.CDLL(out)
    lib.bytes.restype = ctypes.c_size_t
    return lib


def dea(q, k, v, w_rel, w_gate, c):
    """(1)-(6) as a user of PyTorch would write them."""
    d = q.shape[-1]

    def normalise(e):
        e = e - e.mean(-1, keepdim=True)
        return e / (e.square().mean(-1, keepdim=True).sqrt() + 1e-5)

    u = q @ w_rel.transpose(-1, -2)
    e0 = normalise(q @ k.transpose(-1, -2) / math.sqrt(d))
    e1 = normalise((2 * (u @ k.transpose(-1, -2)) - k.square().sum(-1).unsqueeze(-2)) / d)
    with torch.no_grad():
        z = (q @ w_gate[:, :d, None] + (k @ w_gate[:, d:2 * d, None]).transpose(-1, -2)
             + w_gate[:, 2 * d, None, None] * e0 + w_gate[:, 2 * d + 1, None, None] * e1 + c[:, None, None])
        alpha = torch.sigmoid(z.clamp(-10, 10)).clamp(max=0.95)
    return torch.softmax(e0 + alpha * (e1 - e0), -1) @ v


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seq", default="256,1024")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(42)
    heads, d = options.heads, options.head_dim
    print(f"PyTorch {torch.__version__}, one thread, {heads} heads, head_dim {d}; microseconds a head, (ratio to dea.h)")
    with tempfile.TemporaryDirectory() as folder:
        lib = library(folder)
        for seq in map(int, options.seq.split(",")):
            rows = [torch.randn(heads, seq, d) for _ in range(4)]
            q, k, v, d_o = rows
            w_rel, c = torch.randn(heads, d, d) / math.sqrt(d), torch.full((heads,), -0.5)
            w_gate = torch.randn(heads, 2 * d + 2) * math.sqrt(2 / (2 * d + 3))
            o, saved = torch.empty(heads, seq, d), torch.empty(heads, 4, seq)
            grads = [torch.empty(heads, seq, d) for _ in range(3)] + [torch.zeros(heads, d, d)]
            tensors = [q, k, v, w_rel, w_gate, c, o, saved, d_o, *grads]
            pointers = (ctypes.POINTER(ctypes.c_float) * len(tensors))(
                *[ctypes.cast(t.data_ptr(), ctypes.POINTER(ctypes.c_float)) for t in tensors])
            size = lib.bytes(heads, seq, d)
            room = ctypes.create_string_buffer(size + 64)
            at = ctypes.c_void_p((ctypes.addressof(room) + 63) // 64 * 64)

            def ours(passes):
                status = lib.run(heads, seq, d, pointers, at, ctypes.c_size_t(size), passes)
                if status:
                    sys.exit(f"peers.py: dea.h returned {status}")

            leaves = [t.clone().requires_grad_() for t in (q, k, v, w_rel)]

            def peer(function):
                def run(passes):
                    if passes == 1:
                        with torch.no_grad():
                            return function(*leaves)
                    for t in leaves:
                        t.grad = None
                    result = function(*leaves)
                    result.backward(d_o)
                    return result
                return run

            def eager(q, k, v, w):
                return dea(q, k, v, w, w_gate, c)

            peers = {"standard (SDPA)": peer(lambda q, k, v, w: torch.nn.functional.scaled_dot_product_attention(
                q[None], k[None], v[None])[0]), "DEA eager": peer(eager)}
            if not options.no_compile:
                peers["DEA compiled"] = peer(torch.compile(eager))
            for passes, what in ((1, "forward"), (2, "forward+backward")):
                ours(passes)
                for name, run in list(peers.items()):
                    try:
                        result = run(passes)
                    except Exception as error:  # no compiler for torch.compile, out of memory
                        print(f"  {name}: not run: {str(error).splitlines()[0][:80]}")
                        del peers[name]
                        continue
                    if name.startswith("DEA"):
                        worst = (result.detach() - o).abs().max().item()
                        if not worst < 1e-3:
                            sys.exit(f"peers.py: {name} differs from dea.h by {worst:.3g} at T {seq}")
                best = dict.fromkeys(["dea.h", *peers], math.inf)
                for _ in range(options.rounds):
                    for name, run in [("dea.h", ours), *peers.items()]:
                        start = time.perf_counter()
                        run(passes)
                        best[name] = min(best[name], time.perf_counter() - start)
                text = ", ".join(f"{name} {t / heads * 1e6:.0f}" + ("" if name == "dea.h" else f" ({t / best['dea.h']:.2f})")
                                 for name, t in best.items())
                print(f"T {seq}, {what}: {text}", flush=True)


if __name__ == "__main__":
    main()
