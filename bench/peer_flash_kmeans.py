"""The CUDA engine against flash-kmeans (PyPI, Triton): ms per iteration of both in one run, as a Markdown table.

Usage: peer_flash_kmeans.py ENGINE_CUDA_BENCH LIBRARY [largest GB of rows]

ENGINE_CUDA_BENCH is what `make -C test/unit bench` builds, LIBRARY gkmeans_cuda.so.  The peer's arithmetic is
that of its fp32 path (TF32), on random normal rows of the same shape, since it takes the same time on any
data.  Labels of both are checked on a sample: "wrong" counts those that are not the nearest centroid in double precision.
"""
import re
import statistics
import subprocess
import sys
import time

import torch
from flash_kmeans.kmeans_triton_impl import _euclid_iter

ITERATIONS = 8
LINE = re.compile(r"(\d+) x +(\d+) x +(\d+)(.*)  load .* first +([\d.]+) .* median +([\d.]+) .* wrong (\d+)")


def engine_times(bench, library, largest):
    """Per shape, in the order of the benchmark: milliseconds of the first and of later iterations, wrong labels."""
    out = subprocess.run([bench, library, "1", largest], stdout=subprocess.PIPE, text=True, check=True).stdout
    times = {}
    for line in out.splitlines():
        n, k, d, note, first, later, wrong = LINE.search(line).groups()
        times[int(n), int(k), int(d), note] = float(first), float(later), int(wrong)
    return times


def wrong_share(x, centroids, labels):
    """The share of a sample whose label is not the nearest centroid in double."""
    rows = torch.randperm(x.shape[1], device=x.device)[:1024]
    wrong = 0
    for part in rows.split(64):
        distance = torch.cdist(x[0, part].double(), centroids[0].double(),
                               compute_mode="donot_use_mm_for_euclid_dist")
        wrong += (distance.argmin(1) != labels[0, part]).sum().item()
    return wrong / len(rows)


def peer_time(n, k, d):
    """Median milliseconds of the peer's iterations, and the share of its labels that are wrong."""
    x = torch.randn(1, n, d, device="cuda")
    centroids = x[:, torch.randperm(n, device="cuda")[:k]].clone()
    x_sq = (x * x).sum(-1)
    seconds = []
    for _ in range(ITERATIONS):
        before = centroids
        torch.cuda.synchronize()
        start = time.perf_counter()
        centroids, _, labels = _euclid_iter(x, x_sq, centroids)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[3:]) * 1e3, wrong_share(x, before, labels)


def main():
    """Prints the table."""
    bench, library = sys.argv[1:3]
    times = engine_times(bench, library, sys.argv[3] if len(sys.argv) > 3 else "6")
    print("| N × K × D | first | later | wrong | flash-kmeans fp32 | wrong | flash-kmeans / later |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for (n, k, d, note), (first, later, wrong) in times.items():
        peer, peer_wrong = peer_time(n, k, d)
        torch.cuda.empty_cache()
        print(f"| {n:,} × {k:,} × {d}{note} | {first:.2f} | {later:.2f} | {wrong} | {peer:.2f} "
              f"| {peer_wrong:.2%} | {peer / later:.2f} |", flush=True)


main()
