"""A live parameter server for tests."""

import json
import os
import random
import subprocess

BINARY = os.path.abspath("cli/paramd")
JOB = os.path.abspath("config/examples/fashion_mnist_small.json")


def draw_host():
    """An address of 127.0.0.0/8 whose fixed ports are this test's own."""
    return ".".join(["127"] + [str(random.randint(1, 254)) for _ in range(3)])


def start():
    """The process of ps-0 and its address, once it is ready."""
    while True:
        host = draw_host()
        cluster = {"ps": [f"{host}:2222"],
                   "worker": [f"{host}:2223", f"{host}:2224"]}
        environment = {
            name: value for name, value in os.environ.items()
            if name == "PATH" or name.endswith("SAN_OPTIONS")}
        environment["TF_CONFIG"] = json.dumps(
            {"cluster": cluster, "task": {"type": "ps", "index": 0}})
        process = subprocess.Popen(
            [BINARY, "run", "--job", JOB], env=environment, text=True,
            cwd=os.environ["TEST_TMPDIR"], stderr=subprocess.PIPE)
        output = ""
        for line in process.stderr:
            output += line
            if " ready" in line:
                return process, f"{host}:2222"
        process.stderr.close()
        process.wait()
        if "already in use" not in output:
            raise AssertionError(f"the server did not start:\n{output}")


def end(process):
    """Ends what start() has started, however it is."""
    if process.poll() is None:
        process.kill()
        process.wait()
    process.stderr.close()
