"""The CUDA engine against GPU libraries on the sets of real_sets.py: ms per iteration of all in one run, as a Markdown table.

Usage: peers_gpu.py ENGINE_SET_BENCH LIBRARY FOLDER [NAME ...]

ENGINE_SET_BENCH is what `make -C test/unit bench` builds, LIBRARY gkmeans_cuda.so, FOLDER where `real_sets.py --gpu` has put the sets.
Everybody has the same rows on the GPU, starts from the same centroids and makes 20 iterations.  A figure is the time of the 20 over 20.
The engine's first iteration is counted with what it prepares; the peers have compiled and tuned their kernels before, and have run on the
rows once.  "wrong" is the share of a sample of rows, in percent, whose label is not the nearest centroid in double.
Peers that are not installed are left out: flash-kmeans, FlashLib (flashlib), and its backend in the CuTe DSL (nvidia-cutlass-dsl).

--devices 1,2 instead compares the engine with itself on one GPU and on two.
"""

import argparse
import functools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from real_sets import GPU_SETS

ITERATIONS = 20
SAMPLE = 1024
SINGLE = ("flash-kmeans fp32", "FlashLib fp32")
HALF = ("FlashLib bf16", "FlashLib bf16 CuTe")


def engine_report(options, name, devices):
    """What the engine's benchmark prints."""
    out = subprocess.run([options.bench, os.path.join(options.folder, name), str(devices), options.library],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)


def engine_figures(options, name, devices):
    """Milliseconds of the first iteration, of a later one, and the mean; of the run whose mean is the least."""
    reports = [engine_report(options, name, devices) for _ in range(options.repeats)]
    report = min(reports, key=lambda r: statistics.mean(r["steps"]))
    steps = [1e3 * step for step in report["steps"]]
    return {"first": steps[0], "second": (steps + [0.0])[1], "later": statistics.median(steps[2:] or steps), "mean": statistics.mean(steps),
            "iterations": len(steps), "wrong": max(r["wrong"] for r in reports), "inertia": report["inertia"],
            "bytes": report["bytes"]}


def read_shape(file):
    """Rows, features and clusters of a file."""
    return (int(number) for number in np.fromfile(file, np.int64, 3))


def read_set(file):
    """Rows and initial centroids on the GPU, as batches of one."""
    import torch
    n, d, k = read_shape(file)
    numbers = np.fromfile(file, np.float32, offset=24)
    rows = torch.from_numpy(numbers).cuda().view(n + k, d)
    return rows[:n].unsqueeze(0), rows[n:].unsqueeze(0)


@functools.cache
def find_cute(tile):
    """FlashLib's backend in the CuTe DSL with this size of its tiles; None if it is not installed."""
    from flashlib.primitives.kmeans.cutedsl import assign
    if tile == "none" or not assign._try_init_cutedsl():
        return None
    if tile != "tuned":
        given, fixed = assign.cutedsl_assign_euclid, tuple(int(part) for part in tile.split("x"))
        assign.cutedsl_assign_euclid = lambda *args, **more: given(*args, cute_tile=fixed, **more)
    return assign.cutedsl_kmeans_Euclid


def peers(d, tile):
    """Names of the peers that are installed, each with its numbers' type and a function of rows, initial centroids and iterations."""
    import torch
    found = {}
    try:
        from flash_kmeans import batch_kmeans_Euclid as by_flash
        found[SINGLE[0]] = (torch.float32, lambda x, c, m: by_flash(x, c.shape[1], max_iters=m, tol=0.0, init_centroids=c)[:2])
    except ImportError:
        pass
    try:
        from flashlib.primitives.kmeans.triton.kmeans import batch_kmeans_Euclid as by_flashlib
        run = lambda x, c, m: by_flashlib(x, c.shape[1], max_iters=m, tol=0.0, init_centroids=c)[:2]  # noqa: E731
        found[SINGLE[1]] = (torch.float32, run)
        found[HALF[0]] = (torch.bfloat16, run)
        by_cute = find_cute(tile) if d % 16 == 0 and d <= 512 else None
        if by_cute is not None:
            found[HALF[1]] = (torch.bfloat16, lambda x, c, m: by_cute(x, c.shape[1], max_iters=m, tol=0.0, init_centroids=c)[:2])
    except ImportError:
        pass
    return found


def wrong_share(rows, centroids, labels):
    """The share of a sample whose label is not the nearest centroid in double."""
    import torch
    generator = torch.Generator(device="cuda").manual_seed(1)
    sample = torch.randint(rows.shape[1], (SAMPLE,), device="cuda", generator=generator)
    centers = centroids[0].double()
    wrong = 0
    for part in sample.split(max(1, int(2e8 // centers.numel()))):
        distance2 = torch.stack([((rows[0, i].double() - centers) ** 2).sum(1) for i in part])
        chosen = distance2.gather(1, labels[0, part].long()[:, None])[:, 0]
        wrong += (chosen > distance2.min(1).values).sum().item()
    return wrong / SAMPLE


def peer_figures(run, rows, x, initial, repeats):
    """Mean milliseconds of an iteration, the least of the repeats; the share of wrong labels after six iterations."""
    import torch
    seconds = []
    run(x, initial.clone(), ITERATIONS)
    for _ in range(repeats):
        start = initial.clone()
        torch.cuda.synchronize()
        began = time.perf_counter()
        run(x, start, ITERATIONS)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    centroids = run(x, initial.clone(), 5)[1].clone()
    labels = run(x, centroids.clone(), 1)[0]
    return {"mean": min(seconds) * 1e3 / ITERATIONS, "wrong": wrong_share(rows, centroids, labels)}


def all_peers(options, name):
    """The figures of every peer on a set."""
    import torch
    rows, initial = read_set(os.path.join(options.folder, name))
    figures = {}
    for peer, (dtype, run) in peers(rows.shape[2], options.tile).items():
        try:
            x = rows if dtype == rows.dtype else rows.to(dtype)
            figures[peer] = peer_figures(run, rows, x, initial.to(dtype), options.repeats)
        except Exception as error:  # a peer that cannot do a shape is no reason to stop
            print(f"{peer}, {name}: {type(error).__name__} {str(error)[:200]}", file=sys.stderr)
        x = None
        torch.cuda.empty_cache()
    return figures


def compile_kernels(task):
    """Has the peers compile for a shape, on other rows."""
    import torch
    file, tile = task
    n, d, k = read_shape(file)
    rows = torch.randn(1, n, d, device="cuda")
    for peer, (dtype, run) in peers(d, "none").items():
        try:
            run(rows.to(dtype), rows[:, :k].to(dtype).clone(), 1)
        except Exception:  # it is reported when it is measured
            pass


def best(figures, names):
    """The least mean of these peers, or None."""
    return min((figures[name]["mean"] for name in names if name in figures), default=None)


def keep(options, table):
    """Writes the figures so far."""
    if options.figures:
        with open(options.figures, "w") as out:
            json.dump(table, out, indent=1)


def kind(name):
    """What the rows of a set are like."""
    return GPU_SETS[name][0].__name__.replace("_", " ") if name in GPU_SETS else name


def ratio_text(mean, own):
    return "–" if mean is None else f"{mean / own:.2f}"


def peer_text(figures, name):
    return f"{figures[name]['mean']:.3f} ({100 * figures[name]['wrong']:.2g})" if name in figures else "–"


def compare(options, names):
    """The table of the engine and its peers; the figures."""
    if not options.fast:
        with multiprocessing.get_context("spawn").Pool(options.compilers, maxtasksperchild=1) as pool:
            pool.map(compile_kernels, [(os.path.join(options.folder, name), options.tile) for name in names], chunksize=1)
    print("| data | N × K × D | first ms | second | later | mean of 20 | wrong | " + " | ".join(f"{name} (wrong %)" for name in SINGLE + HALF)
          + " | best fp32 / ours | best bf16 / ours |")
    print("|---|---|" + "--:|" * (7 + len(SINGLE + HALF)))
    table = []
    for name in names:
        n, d, k = read_shape(os.path.join(options.folder, name))
        own = engine_figures(options, name, 1)
        others = all_peers(options, name)
        single, half = best(others, SINGLE), best(others, HALF)
        print(f"| {kind(name)} | {n:,} × {k:,} × {d} | {own['first']:.2f} | {own['second']:.2f} | {own['later']:.3f} | {own['mean']:.3f}"
              + (f" (of {own['iterations']})" if own["iterations"] < ITERATIONS else "") + f" | {own['wrong']} | "
              + " | ".join(peer_text(others, peer) for peer in SINGLE + HALF)
              + f" | {ratio_text(single, own['mean'])} | {ratio_text(half, own['mean'])} |", flush=True)
        table.append({"name": name, "kind": kind(name), "n": n, "d": d, "k": k, "own": own, "peers": others,
                      "ratios": [None if mean is None else mean / own["mean"] for mean in (single, half)]})
        keep(options, table)
    return table


def scale(options, names):
    """The table of the engine on several numbers of GPUs; the figures."""
    counts = [int(count) for count in options.devices.split(",")]
    print("| data | N × K × D | " + " | ".join(f"{count} GPUs: first, later, mean ms" for count in counts) + " | efficiency, later | mean | wrong |")
    print("|---|---|" + "--:|" * (len(counts) + 3))
    table = []
    for name in names:
        n, d, k = read_shape(os.path.join(options.folder, name))
        own = [engine_figures(options, name, count) for count in counts]
        efficiency = [own[0][what] * counts[0] / (own[-1][what] * counts[-1]) for what in ("later", "mean")]
        same = all(figures["inertia"] == own[0]["inertia"] for figures in own)
        print(f"| {kind(name)} | {n:,} × {k:,} × {d} | "
              + " | ".join(f"{figures['first']:.2f}, {figures['later']:.3f}, {figures['mean']:.3f}" for figures in own)
              + f" | {efficiency[0]:.2f} | {efficiency[1]:.2f} | {max(figures['wrong'] for figures in own)}{'' if same else ', **another inertia**'} |",
              flush=True)
        table.append({"name": name, "kind": kind(name), "n": n, "d": d, "k": k, "devices": counts, "own": own, "same": same})
        keep(options, table)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", help="engine_set_bench")
    parser.add_argument("library", help="gkmeans_cuda.so")
    parser.add_argument("folder", help="where the sets are")
    parser.add_argument("names", nargs="*", help="all sets of the folder, if none is named")
    parser.add_argument("--repeats", type=int, default=1, help="everybody's best run counts")
    parser.add_argument("--tile", default="tuned", help="of the CuTe DSL kernel: tuned, which takes long, 128x256 or the like, or none")
    parser.add_argument("--compilers", type=int, default=8, help="processes that compile before")
    parser.add_argument("--fast", action="store_true", help="do not compile before")
    parser.add_argument("--devices", help="numbers of GPUs, such as 1,2: the engine alone")
    parser.add_argument("--figures", help="write the figures there, as JSON")
    options = parser.parse_intermixed_args()
    names = options.names or sorted(os.listdir(options.folder))
    names = [name for name in names if os.path.exists(os.path.join(options.folder, name))]
    table = (scale if options.devices else compare)(options, names)
    sys.exit(any(own["wrong"] for row in table for own in (row["own"] if options.devices else [row["own"]])))


if __name__ == "__main__":
    main()
