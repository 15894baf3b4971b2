"""The CUDA engine against GPU libraries on the sets of real_sets.py: ms per iteration of all in one run, as a Markdown table.

Usage: peers_gpu.py ENGINE_SET_BENCH LIBRARY FOLDER [NAME ...]

ENGINE_SET_BENCH is what `make -C test/unit bench` builds, LIBRARY gkmeans_cuda.so, FOLDER where `real_sets.py --gpu` has put the sets.
Everybody has the same rows on the GPU, starts from the same centroids and makes 20 iterations.  A figure is the time of the 20 over 20.
The engine's first iteration is counted with what it prepares; the peers have compiled and tuned their kernels before, and have run on the
rows once.  A fit of cuVS ends with a pass for the inertia, so its figure is the time of 21 iterations less that of one.
"wrong" is the share of a sample of rows, in percent, whose label is not the nearest centroid in double.
Peers that are not installed are left out: flash-kmeans, FlashLib (flashlib), its backend in the CuTe DSL (nvidia-cutlass-dsl), and cuVS.

--devices 1,2 instead compares the engine with itself on one GPU and on two.
"""

import argparse
import collections
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
SINGLE = ("flash-kmeans fp32", "FlashLib fp32", "cuVS fp32")
HALF = ("FlashLib bf16", "FlashLib bf16 CuTe")
# cuVS wants a tolerance above 0
LEAST_TOLERANCE = 1e-30

# A library: the type of its numbers; a function of rows, initial centroids and iterations, for the centroids and how many iterations it made;
# a function of rows and centroids, for the labels; and whether a call does more than iterate.
Peer = collections.namedtuple("Peer", "dtype iterate label more", defaults=[False])


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
def load_cute():
    """FlashLib's assignment in the CuTe DSL; None if it is not installed."""
    try:
        from flashlib.primitives.kmeans.cutedsl import assign
    except ImportError:
        return None
    if not assign._try_init_cutedsl():
        print(assign.cutedsl_info(), file=sys.stderr)
        return None
    assign.euclid_assign_triton = refuse
    return assign


def refuse(*_, **__):
    """Stands where the CuTe DSL's assignment would run another backend instead."""
    raise RuntimeError("no kernel of the CuTe DSL ran")


def has_cute(d, k):
    """Whether the CuTe DSL has a kernel for this shape."""
    return d % 16 == 0 and d <= 512 and (d > 16 or k > 16) and load_cute() is not None


def triton_peer(dtype, batch_kmeans):
    """A peer with the interface of flash-kmeans."""
    def iterate(x, centroids, iterations):
        return run(x, centroids, iterations)[1], iterations

    def run(x, centroids, iterations):
        return batch_kmeans(x, centroids.shape[1], max_iters=iterations, tol=0.0, init_centroids=centroids.clone())

    return Peer(dtype, iterate, lambda x, centroids: run(x, centroids, 1)[0])


def cuvs_peer():
    """cuVS, whose fit writes to the centroids it is given; None if it is not installed."""
    import torch
    try:
        from cuvs.cluster import kmeans
        from cuvs.common import Resources
    except ImportError:
        return None
    resources = Resources()

    def parameters(centroids, iterations):
        return kmeans.KMeansParams(n_clusters=centroids.shape[1], init_method="Array", max_iter=iterations, tol=LEAST_TOLERANCE, n_init=1)

    def iterate(x, centroids, iterations):
        centroids = centroids.clone()
        _, _, made = kmeans.fit(parameters(centroids, iterations), x[0], centroids=centroids[0], resources=resources)
        resources.sync()
        return centroids, made

    def label(x, centroids):
        labels = torch.empty(x.shape[:2], dtype=torch.int32, device="cuda")
        kmeans.predict(parameters(centroids, 1), x[0], centroids[0], labels=labels[0], resources=resources)
        resources.sync()
        return labels

    return Peer(torch.float32, iterate, label, more=True)


def cute_peer(n, d, k, tile):
    """FlashLib's loop with the CuTe DSL's assignment by this tile, which is put where it keeps those it has tuned; None without it."""
    import torch
    if tile is None or not has_cute(d, k):
        return None
    assign = load_cute()
    assign._autotune_cache[n, d, k, torch.bfloat16, torch.bfloat16] = tile
    return triton_peer(torch.bfloat16, assign.cutedsl_kmeans_Euclid)


def peers(n, d, k, tile=None):
    """The peers that are installed, by name."""
    import torch
    found = {}
    try:
        from flash_kmeans import batch_kmeans_Euclid as by_flash
        found[SINGLE[0]] = triton_peer(torch.float32, by_flash)
    except ImportError:
        pass
    try:
        from flashlib.primitives.kmeans.triton.kmeans import batch_kmeans_Euclid as by_flashlib
        found[SINGLE[1]] = triton_peer(torch.float32, by_flashlib)
        found[HALF[0]] = triton_peer(torch.bfloat16, by_flashlib)
        found[HALF[1]] = cute_peer(n, d, k, tile)
    except ImportError:
        pass
    found[SINGLE[2]] = cuvs_peer()
    return {name: peer for name, peer in found.items() if peer is not None}


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


def timed(peer, x, initial, iterations):
    """The seconds of so many iterations, and how many were made."""
    import torch
    torch.cuda.synchronize()
    began = time.perf_counter()
    made = peer.iterate(x, initial, iterations)[1]
    torch.cuda.synchronize()
    return time.perf_counter() - began, made


def mean_seconds(peer, x, initial):
    """The mean seconds of an iteration, and of how many."""
    if not peer.more:
        return timed(peer, x, initial, ITERATIONS)[0] / ITERATIONS, ITERATIONS
    once, first = timed(peer, x, initial, 1)
    seconds, made = timed(peer, x, initial, ITERATIONS + 1)
    return (seconds - once) / max(made - first, 1), made - first


def peer_figures(peer, rows, x, initial, repeats):
    """Mean milliseconds of an iteration, the least of the repeats; the share of wrong labels after five iterations."""
    centroids = peer.iterate(x, initial, 5)[0]
    wrong = wrong_share(rows, centroids, peer.label(x, centroids))
    if not peer.more:
        peer.iterate(x, initial, ITERATIONS)
    mean, iterations = min(mean_seconds(peer, x, initial) for _ in range(repeats))
    return {"mean": mean * 1e3, "iterations": iterations, "wrong": wrong}


def all_peers(options, name, tile):
    """The figures of every peer on a set."""
    import torch
    rows, initial = read_set(os.path.join(options.folder, name))
    figures = {}
    n, d, k = rows.shape[1], rows.shape[2], initial.shape[1]
    for peer_name, peer in peers(n, d, k, tile).items():
        try:
            x = rows if peer.dtype == rows.dtype else rows.to(peer.dtype)
            figures[peer_name] = peer_figures(peer, rows, x, initial.to(peer.dtype), options.repeats)
        except Exception as error:  # a peer that cannot do a shape is no reason to stop
            print(f"{peer_name}, {name}: {type(error).__name__} {str(error)[:200]}", file=sys.stderr)
        x = None
        forget_tensors()
        torch.cuda.empty_cache()
    if HALF[1] in figures:
        figures[HALF[1]]["tile"] = tile
    return figures


def forget_tensors():
    """Ends the references to rows that the CuTe DSL keeps."""
    assign = sys.modules.get("flashlib.primitives.kmeans.cutedsl.assign")
    if assign is not None:
        assign._dlpack_cache.clear()
        assign._kernel_cache.clear()


def compile_kernels(file):
    """Has the peers compile for a shape, on other rows."""
    import torch
    n, d, k = read_shape(file)
    rows = torch.randn(1, n, d, device="cuda")
    for peer in peers(n, d, k).values():
        try:
            if not peer.more:
                peer.iterate(rows.to(peer.dtype), rows[:, :k].to(peer.dtype), 1)
        except Exception:  # it is reported when it is measured
            pass


def tune_tile(file):
    """The tile with which the CuTe DSL is the fastest on a shape; None if there is none.  Its kernels are compiled beside those of other
    shapes, and then run alone."""
    import torch
    n, d, k = read_shape(file)
    if not has_cute(d, k):
        return None
    assign = load_cute()
    x = torch.randn(n, d, device="cuda", dtype=torch.bfloat16)
    centroids = x[:k].clone()
    squares = (centroids.float() ** 2).sum(1)
    labels = torch.empty(n, device="cuda", dtype=torch.int32)
    capacity = torch.cuda.get_device_properties(x.device).shared_memory_per_block_optin
    for rows, columns, specialised in assign._autotune_candidates(d, 2, capacity):
        try:
            assign._get_compiled_assign(x, centroids, squares, labels, rows, columns, use_ws=specialised)
        except Exception:  # it is no candidate then
            pass
    with gpu_lock:
        return assign._autotune_pick(x, centroids, squares, labels)[:3]


def share_lock(lock):
    """Who holds it runs alone on the GPU."""
    global gpu_lock
    gpu_lock = lock


def each(pool, function, files, seconds):
    """What a function returns for each file, in so many seconds in all; None if it fails, or its process does."""
    answers = [pool.apply_async(function, (file,)) for file in files]
    end = time.monotonic() + seconds
    found = []
    for file, answer in zip(files, answers):
        try:
            found.append(answer.get(max(end - time.monotonic(), 0)))
        except Exception as error:  # it is reported, and the rest is measured
            print(f"{function.__name__}, {os.path.basename(file)}: {type(error).__name__} {str(error)[:200]}", file=sys.stderr)
            found.append(None)
    return found


def prepare_peers(options, names):
    """Compiles in many processes; the tiles of the CuTe DSL, by set, where it has one."""
    spawn = multiprocessing.get_context("spawn")
    files = [os.path.join(options.folder, name) for name in names]
    with spawn.Pool(options.compilers, share_lock, (spawn.Lock(),), maxtasksperchild=1) as pool:
        if not options.fast:
            each(pool, compile_kernels, files, options.patience)
        if options.tile == "tuned":
            return dict(zip(names, each(pool, tune_tile, files, options.patience)))
    fixed = None if options.tile == "none" else tuple(int(part) for part in options.tile.split("x")) + (False,)
    return dict.fromkeys(names, fixed)


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
    if name not in figures:
        return "–"
    fewer = f" of {figures[name]['iterations']}" if figures[name]["iterations"] < ITERATIONS else ""
    return f"{figures[name]['mean']:.3f}{fewer} ({100 * figures[name]['wrong']:.2g})"


def compare(options, names):
    """The table of the engine and its peers; the figures."""
    tiles = prepare_peers(options, names)
    print("| data | N × K × D | first ms | second | later | mean of 20 | wrong | " + " | ".join(f"{name} (wrong %)" for name in SINGLE + HALF)
          + " | best fp32 / ours | best bf16 / ours |")
    print("|---|---|" + "--:|" * (7 + len(SINGLE + HALF)))
    table = []
    for name in names:
        n, d, k = read_shape(os.path.join(options.folder, name))
        own = engine_figures(options, name, 1)
        others = all_peers(options, name, tiles.get(name))
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
    parser.add_argument("--tile", default="tuned", help="of the CuTe DSL kernel: tuned, 128x256 or the like, or none")
    parser.add_argument("--compilers", type=int, default=8, help="processes that compile before")
    parser.add_argument("--patience", type=float, default=600, help="seconds that compiling may take, and tuning")
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
