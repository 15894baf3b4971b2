"""Times flash-kmeans (PyPI, Triton) on the shapes of engine_cuda.c: ms per iteration, fp32 (TF32) and fp16.

Usage: peer_flash_kmeans.py [largest GB of rows]
"""
import statistics
import sys
import time

import torch
from flash_kmeans.kmeans_triton_impl import _euclid_iter

SHAPES = [
    (1000000, 1000, 128), (10000000, 100, 32), (10000000, 1024, 128), (1000000, 16384, 128),
    (5000000, 4096, 256), (1000000, 65536, 512), (100000000, 16, 8), (8000000, 10, 128),
    (1000000, 256, 784), (4000000, 10000, 250),
]


def wrong_share(x, centroids, labels):
    """The share of a sample whose label is not the nearest centroid in double."""
    rows = torch.randperm(x.shape[1], device=x.device)[:1024]
    wrong = 0
    for part in rows.split(64):
        distance = torch.cdist(x[0, part].double(), centroids[0].double(),
                               compute_mode="donot_use_mm_for_euclid_dist")
        wrong += (distance.argmin(1) != labels[0, part]).sum().item()
    return wrong / len(rows)


def time_shape(n, k, d, kind):
    """Median milliseconds of an iteration, and the share of wrong labels."""
    x = torch.randn(1, n, d, device="cuda", dtype=kind)
    centroids = x[:, torch.randperm(n, device="cuda")[:k]].clone()
    x_sq = (x * x).sum(-1)
    seconds = []
    before = centroids
    for _ in range(8):
        before = centroids
        torch.cuda.synchronize()
        start = time.perf_counter()
        centroids, shift, labels = _euclid_iter(x, x_sq, centroids)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[3:]) * 1e3, wrong_share(x, before, labels)


def main():
    largest = float(sys.argv[1]) * 1e9 if len(sys.argv) > 1 else 6e9
    for n, k, d in SHAPES:
        if n * d * 4 > largest:
            continue
        line = f"{n:9d} x {k:6d} x {d:4d}"
        for kind, name in ((torch.float32, "fp32"), (torch.float16, "fp16")):
            try:
                milliseconds, wrong = time_shape(n, k, d, kind)
                line += f"  {name} {milliseconds:9.3f} ms (wrong {wrong:.4f})"
            except Exception as error:  # a shape that a peer cannot do is a result too
                line += f"  {name} {type(error).__name__}"
            torch.cuda.empty_cache()
        print(line, flush=True)


main()
