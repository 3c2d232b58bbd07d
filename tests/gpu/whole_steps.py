"""Whole steps on a GPU: weights pulled from, and gradients pushed to, a local server.

    python3 whole_steps.py PARAMD [--device=cuda:0] [--libraries=PATH] [--quick]

Trains a dense, a convolutional and a GPT model with one server and one worker on
made-up input, and prints as lines of JSON, of each: steps a second, and the share of
its time in which the GPU computed, as nvidia-smi says it; without one only the steps.
The start and the end of a run do not count. Exits 1, with the end of what paramd
said, if a run fails. run.sh runs it where there is Python.
"""

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import threading

# Of a second; nvidia-smi looks at the last sixth to whole second itself.
SAMPLE_SECONDS = 0.25


def block(width):
    return [
        {"residual": {"layers": [
            "layer_norm", {"attention": {"heads": 8, "causal": True}}]}},
        {"residual": {"layers": [
            "layer_norm", {"dense": 4 * width}, "gelu", {"dense": width}]}}]


def jobs(quick):
    """Of each model: its layers, the examples of a batch, batches, and the text."""
    wide, blocks, width = (64, 1, 32) if quick else (4096, 6, 512)
    images = 20 if quick else 4096
    steps = 12 if quick else 80
    dense = ["flatten"] + 2 * [{"dense": wide}, "relu"] + [{"dense": 10}]
    convolutional = [
        {"conv2d": 8 if quick else 64}, "relu", {"max_pool": 2},
        {"conv2d": 8 if quick else 128}, "relu", {"max_pool": 2},
        "flatten", {"dense": 10}]
    gpt = ([{"embedding": width}, "positional_embedding"] +
           [layer for _ in range(blocks) for layer in block(width)] +
           ["layer_norm", {"dense": 256}])
    yield "mlp", dense, images, steps, None
    yield "cnn", convolutional, images // 4, steps, None
    yield "gpt", gpt, 4 if quick else 32, steps, 32 if quick else 256


def write_images(directory, count):
    """As Fashion-MNIST has them, of noise."""
    for part, images in (("train", count), ("t10k", 16)):
        with open(os.path.join(directory, f"{part}-images-idx3-ubyte"),
                  "wb") as file:
            file.write(struct.pack(">IIII", 0x803, images, 28, 28))
            file.write(random.Random(1).randbytes(images * 28 * 28))
        with open(os.path.join(directory, f"{part}-labels-idx1-ubyte"),
                  "wb") as file:
            file.write(struct.pack(">II", 0x801, images))
            file.write(bytes(i % 10 for i in range(images)))


def write_text(directory, count):
    letters = bytes(random.Random(1).choices(b"abcdefgh \n", k=count))
    for name, text in (("train.txt", letters), ("test.txt", letters[:4096])):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(text)


def input_of(directory, examples, context):
    if context is None:
        write_images(directory, examples)
        return {"format": "idx", "directory": directory,
                "train_images": "train-images-idx3-ubyte",
                "train_labels": "train-labels-idx1-ubyte",
                "test_images": "t10k-images-idx3-ubyte",
                "test_labels": "t10k-labels-idx1-ubyte"}
    write_text(directory, (examples + 1) * context)
    return {part: {"directory": directory,
                   "text": {"files": f"{part}.txt", "context": context}}
            for part in ("train", "test")}


class Watch:
    """What nvidia-smi says of the device every so often, until stop()."""

    def __init__(self, device):
        self._number = device.rpartition(":")[2]
        self._stopped = threading.Event()
        self._percent = []
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self):
        command = ["nvidia-smi", f"--id={self._number}",
                   "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._stopped.wait(SAMPLE_SECONDS):
            try:
                said = subprocess.run(command, capture_output=True, text=True,
                                      timeout=10, check=True)
                self._percent.append(float(said.stdout))
            except (OSError, ValueError, subprocess.SubprocessError):
                return

    def stop(self):
        """The samples of the middle three fifths of the time."""
        self._stopped.set()
        self._thread.join()
        fifth = len(self._percent) // 5
        return self._percent[fifth:len(self._percent) - fifth]


def seconds_of_steps(trace):
    """From the begin of a step to that of the next, without the first tenth."""
    with open(trace, encoding="utf-8") as file:
        begins = sorted(event["ts"] for event in json.load(file)["traceEvents"]
                        if event["name"] == "step")
    begins = begins[len(begins) // 10:]
    return [(after - before) / 1e6 for before, after in zip(begins, begins[1:])]


def report(metric, unit, values):
    print(json.dumps({
        "bench": "whole_steps", "metric": metric, "unit": unit,
        "value": statistics.median(values), "low": min(values),
        "high": max(values)}), flush=True)


def run(options, name, layers, batch, steps, context):
    with tempfile.TemporaryDirectory() as directory:
        job = {
            "name": name, "epochs": 1,
            "batch_per_replica": batch,
            "device": options.device,
            "input": input_of(directory, batch * steps, context),
            "model": {"layers": layers, "loss": "softmax_cross_entropy"},
            "optimizer": {"adam": {}, "learning_rate": 1e-4},
            "run_dir": os.path.join(directory, "run")}
        if context is not None:
            job["model"]["input"] = "tokens"
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        trace = os.path.join(directory, "trace.json")
        environment = dict(os.environ)
        if options.libraries is not None:
            environment["LD_LIBRARY_PATH"] = options.libraries
        watch = Watch(options.device)
        done = subprocess.run(
            [options.paramd, "local", "--servers=1", "--workers=1", f"--job={path}",
             f"--trace={trace}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, env=environment)
        busy = watch.stop()
        if done.returncode != 0:
            sys.exit(f"{name}: paramd ended with {done.returncode}:\n"
                     f"{done.stdout[-2000:]}")
        seconds = seconds_of_steps(trace)
        report(f"{name}.steps_per_second", "1/s", [1 / s for s in seconds])
        if busy:
            report(f"{name}.busy", "%", busy)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paramd")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of PARAMD")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name, *job in jobs(options.quick):
        run(options, name, *job)


if __name__ == "__main__":
    main()
