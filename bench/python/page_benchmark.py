"""What the status page costs, and how soon it shows what it is for.

    bazel build //cli:paramd
    cd bazel-bin && PYTHONPATH=$OLDPWD /usr/bin/python3 \\
      $OLDPWD/bench/python/page_benchmark.py

Needs Debian's chromium-driver and python3-selenium. Jobs have 2 servers and 2 workers,
and the page is the chief's.

`share`: processor time of all four processes with BROWSERS pages open and a scrape of
each process every SCRAPES seconds, beyond that of the same processes unwatched, on a
job that waits for more input, so that nothing else is counted; over what the processes
of a job take that trains on Fashion-MNIST on all cores.
`paint`: from the navigation to the page until something is drawn, and until the
figures are there, while that job trains.
`answer`: bytes of the page, of all its figures, and of those of one second.
`killed`: from kill -9 until the page, which is open, says that the process does not
answer, while that job trains.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import tempfile
import threading
import time
import urllib.request

from bench.python.observe_benchmark import (
    NETWORK, SCRAPES, Job, processor_seconds)
from tests.cluster import browser

BROWSERS = 10
COLUMNS = [f"c{i}" for i in range(16)]

# When the figures were there, in milliseconds since the navigation; and since when
# processes do not answer, as the page has it, by their names.
WATCH = """
  window.away = {};
  new MutationObserver(() => {
    const verdict = document.getElementById("verdict");
    if (!verdict || verdict.textContent === "…") return;
    window.figuresAt ??= performance.now();
    const now = {};
    for (const row of document.querySelectorAll("#processes tr")) {
      const [name, state] = row.children;
      if (state.textContent === "no answer")
        now[name.textContent] = away[name.textContent] ?? Date.now();
    }
    away = now;
  }).observe(document, {childList: true, subtree: true, characterData: true});
"""


def write_rows(directory, name, count):
    """A CSV file, which has its name when it is complete."""
    path = os.path.join(directory, name)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(",".join([*COLUMNS, "y"]) + "\n")
        for _ in range(count):
            values = [f"{random.random():.3f}" for _ in COLUMNS]
            file.write(",".join([*values, str(random.randrange(10))]) + "\n")
    os.rename(path + ".tmp", path)


def start_all(job):
    for task in job.cluster.tasks:
        job.start_watched(task, "--epochs=1000000")
    wait_until(job, lambda page: page["verdict"].startswith("trains: ")
               and not any(p["level"] == "BAD" for p in page["processes"]))


def url_of(job):
    return f"http://{job.metrics_address('worker-0')}/"


def figures(job, since=0):
    """What /status.json says, as bytes; empty while nobody listens."""
    try:
        with urllib.request.urlopen(
                f"{url_of(job)}status.json?since={since}") as answer:
            return answer.read()
    except OSError:
        return b""


def wait_until(job, condition):
    while not ((content := figures(job)) and condition(json.loads(content))):
        time.sleep(0.2)


def used_in(job, seconds):
    """Processor seconds a second of all its processes."""
    def used():
        return sum(processor_seconds(run.process.pid)
                   for run in job.running.values())
    begin, before = time.monotonic(), used()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - begin)


def scrape_all(job, over):
    while not over.wait(SCRAPES):
        for task in job.cluster.tasks:
            job.scrape(task)


def answered(chromium):
    """Answers that its windows have had by now."""
    total = 0
    for window in chromium.driver.window_handles:
        chromium.driver.switch_to.window(window)
        total += chromium.run("return performance.getEntriesByType('resource')"
                              ".filter((one) => one.name.includes('status.json'))"
                              ".length")
    return total


def start_waiting(data):
    """A job that has trained on what `data` has and waits for more files."""
    csv = {"label": "y", "columns": COLUMNS, "classes": 10}
    job = Job(2, 2, NETWORK, input={
        "follow": {"poll_ms": 60000},
        "train": {"directory": data, "csv": {"files": "part-*.csv", **csv}},
        "test": {"directory": data, "csv": {"files": "test.csv", **csv}}})
    write_rows(data, "test.csv", 100)
    write_rows(data, "part-1.csv", 20000)
    for task in job.cluster.tasks:
        job.start_watched(task)
    return job


def measure_watching(seconds):
    """(processor seconds a second that watching takes, answers a second)."""
    with tempfile.TemporaryDirectory() as data, \
            contextlib.closing(start_waiting(data)) as job, \
            contextlib.closing(browser.Browser()) as chromium:
        wait_until(job, lambda page: "epoch 1.00 of 1" in page["verdict"]
                   and page["points"][-1].get("examples_per_second", 0) == 0)
        time.sleep(10)  # Nobody looks any more, and the watch falls asleep.
        alone = used_in(job, seconds)
        chromium.open(url_of(job))
        for _ in range(BROWSERS - 1):
            chromium.driver.switch_to.new_window("window")
            chromium.driver.get(url_of(job))
        over = threading.Event()
        threading.Thread(target=scrape_all, args=(job, over), daemon=True).start()
        time.sleep(5)
        before, begin = answered(chromium), time.monotonic()
        beside = used_in(job, seconds)
        rate = (answered(chromium) - before) / (time.monotonic() - begin)
        over.set()
    return beside - alone, rate


def measure_paint(chromium, job, rounds):
    """Seconds until something is drawn, and until the figures are there, each."""
    painted, drawn = [], []
    for _ in range(rounds):
        chromium.open(url_of(job))
        while not (found := chromium.run(
                "const paint = performance.getEntriesByName("
                "'first-contentful-paint')[0];"
                "return paint && window.figuresAt"
                " ? [paint.startTime, window.figuresAt] : null")):
            time.sleep(0.05)
        painted.append(found[0] / 1e3)
        drawn.append(found[1] / 1e3)
    return painted, drawn


def measure_killed(chromium, job, task, rounds):
    """Seconds from each kill until the open page says so."""
    chromium.open(url_of(job))
    found = []
    for _ in range(rounds):
        chromium.wait_for("#processes", f"{task}\\s+alive")
        time.sleep(1 + random.random())  # Any moment between two questions.
        begin = time.time()
        job.running[task].process.kill()
        while not (since := chromium.run("return window.away[arguments[0]]", task)):
            time.sleep(0.05)
        found.append(since / 1e3 - begin)
        job.running[task].process.wait()
        job.start_watched(task, "--epochs=1000000")
    return found


def answers(job):
    """Bytes of each kind of answer."""
    asked = urllib.request.Request(url_of(job), headers={"Accept": "text/html"})
    with urllib.request.urlopen(asked) as answer:
        page = len(answer.read())
    content = figures(job)
    newest = json.loads(content)["points"][-1]["number"]
    return {"page": page, "all_figures": len(content),
            "a_second": len(figures(job, newest - 1))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not browser.is_installed():
        raise SystemExit("page: needs Debian's chromium-driver and "
                         "python3-selenium")

    def report(metric, value, unit, **beside):
        if options.json:
            print(json.dumps({"bench": "page", "metric": metric, "value": value,
                              "unit": unit, **beside}), flush=True)
        else:
            print(f"{metric:32} {value:10.4g} {unit:4}", beside or "", flush=True)

    def report_all(metric, values):
        report(metric, statistics.median(values), "s", longest=max(values),
               rounds=len(values))

    rounds, seconds = (3, 15) if options.quick else (20, 60)
    watching, rate = measure_watching(seconds)
    with contextlib.closing(Job(2, 2, NETWORK)) as job, \
            contextlib.closing(browser.Browser(WATCH)) as chromium:
        start_all(job)
        time.sleep(10)  # Until nobody looks.
        training = used_in(job, seconds)
        report(f"share.of_{BROWSERS}_browsers", watching / training, "",
               peer="training", peer_value=training, watching=watching,
               answers_a_second=round(rate, 2))
        painted, drawn = measure_paint(chromium, job, rounds)
        report_all("paint.first", painted)
        report_all("paint.figures", drawn)
        for task in ("worker-1", "ps-1"):
            report_all(f"killed.{task}",
                       measure_killed(chromium, job, task, rounds))
        for name, value in answers(job).items():
            report(f"answer.{name}", value, "B")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEST_TMPDIR"] = directory
        main()
