"""The CPU engine against scikit-learn and faiss-cpu on the sets of real_sets.py: seconds of all in one run, as a Markdown table.

Usage: peers_cpu.py ENGINE_SET_BENCH [--repeats N] [--scale S] [--threads T] [--only NAME] [--figures FILE]

ENGINE_SET_BENCH is what `make -C test/unit bench` builds.  Everybody starts from the same rows that are in memory and the same
centroids, makes at most 20 iterations with `tol` 0, and ends with labels.  The engine's time includes copying the rows into the
engine and what a fit computes of them before it iterates.  With --processor-time, the seconds are those that one thread of each
ran on a processor: for a machine that is busy with other work.  The programs run in turn; each figure is the least of the repeats, but
elkan and faiss run once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from real_sets import SETS, make, write

ITERATIONS = 20


def run_engine(bench, file, threads, folder):
    """The engine's seconds and what else it reports; its labels."""
    labels = os.path.join(folder, "labels")
    out = subprocess.run([bench, file, str(threads), "", labels], stdout=subprocess.PIPE, text=True, check=True).stdout
    report = json.loads(out)
    report["seconds"] = report["append"] + report["prepare"] + sum(report["steps"]) + report["labels"]
    return report, np.fromfile(labels, dtype=np.int32)


def run_sklearn(rows, initial, algorithm, clock):
    """scikit-learn's seconds, and the model."""
    from sklearn.cluster import KMeans
    model = KMeans(len(initial), init=initial, n_init=1, max_iter=ITERATIONS, tol=0, algorithm=algorithm)
    started = clock()
    model.fit(rows)
    return clock() - started, model


def run_faiss(rows, initial, threads, clock):
    """faiss-cpu's seconds, with all rows and labels at the end; None if it is not installed."""
    try:
        import faiss
    except ImportError:
        return None, None
    faiss.omp_set_num_threads(threads)
    model = faiss.Kmeans(rows.shape[1], len(initial), niter=ITERATIONS, max_points_per_centroid=len(rows),
                         min_points_per_centroid=1)
    started = clock()
    model.train(rows, init_centroids=initial)
    distance2, labels = model.index.search(rows, 1)
    return clock() - started, float(distance2.sum(dtype=np.float64))


def least(seconds):
    """The least of some seconds; None if there are none."""
    known = [second for second in seconds if second is not None]
    return min(known) if known else None


def compare(options, name, folder):
    """Runs everybody on a set, in turn: a row of figures."""
    rows, initial = make(name, options.scale)
    file = os.path.join(folder, "set")
    write(file, rows, initial)
    clock = time.process_time if options.processor_time else time.perf_counter
    engine, lloyd, elkan, faiss, faiss_inertia = [], [], [], [], None
    for repeat in range(options.repeats):
        others = repeat == 0 and not options.fast
        report, labels = run_engine(options.bench, file, options.threads, folder)
        if options.processor_time:
            report["seconds"] = report["used"]
        engine.append(report)
        seconds, model = run_sklearn(rows, initial, "lloyd", clock)
        lloyd.append(seconds)
        if others:
            elkan.append(run_sklearn(rows, initial, "elkan", clock)[0])
            seconds, faiss_inertia = run_faiss(rows, initial, options.threads, clock)
            faiss.append(seconds)
    best = min(engine, key=lambda report: report["seconds"])
    steps = [min(report["steps"][i] for report in engine) for i in range(len(best["steps"]))]
    later = sorted(steps[1:]) or steps
    return {
        "name": name, "n": len(rows), "d": rows.shape[1], "k": len(initial),
        "seconds": best["seconds"], "first": steps[0], "later": later[len(later) // 2], "iterations": len(steps),
        "lloyd": least(lloyd), "elkan": least(elkan), "faiss": least(faiss),
        "agree": float((labels == model.labels_).mean()),
        "inertia": best["inertia"] / model.inertia_ - 1, "wrong": best["wrong"],
        "faiss_inertia": best["inertia"] / faiss_inertia - 1 if faiss_inertia else None,
    }


def seconds_text(seconds):
    return "–" if seconds is None else f"{seconds:.2f}"


def ratio_text(seconds, own):
    return "–" if seconds is None else f"{seconds / own:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", help="engine_set_bench")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the rows")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", action="append", help="a set; may be given more than once")
    parser.add_argument("--fast", action="store_true", help="without scikit-learn's elkan and faiss")
    parser.add_argument("--figures", help="write the figures there, as JSON")
    parser.add_argument("--processor-time", action="store_true", help="compare seconds on a processor, of one thread each")
    options = parser.parse_args()
    if options.processor_time:
        options.threads = 1
    from threadpoolctl import threadpool_limits
    figures = []
    print("| data | rows × features, k | gkmeans s | first, later ms | scikit-learn lloyd s | elkan s | faiss s | lloyd / gkmeans"
          " | elkan / gkmeans | faiss / gkmeans | labels as lloyd's | inertia to lloyd's | wrong |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(options.threads):
        for name in options.only or SETS:
            f = compare(options, name, folder)
            figures.append(f)
            print(f"| {name} | {f['n']:,} × {f['d']}, {f['k']} | {f['seconds']:.3f} | {f['first'] * 1e3:.1f}, {f['later'] * 1e3:.1f} |"
                  f" {seconds_text(f['lloyd'])} | {seconds_text(f['elkan'])} | {seconds_text(f['faiss'])} |"
                  f" {ratio_text(f['lloyd'], f['seconds'])} | {ratio_text(f['elkan'], f['seconds'])} |"
                  f" {ratio_text(f['faiss'], f['seconds'])} | {f['agree']:.4f} | {f['inertia']:+.1e} | {f['wrong']} |", flush=True)
    if options.figures:
        with open(options.figures, "w") as out:
            json.dump(figures, out, indent=1)
    sys.exit(any(f["wrong"] for f in figures))


if __name__ == "__main__":
    main()
