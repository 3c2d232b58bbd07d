#!/usr/bin/env python3
"""Runs fuzz targets with libFuzzer: tests/fuzz/run.py --help.

Prints a line for each: how many inputs it ran, how fast, how many of them were new to
it, the most memory that it took, and what it crashed on. Exits 1 if one did.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What runs leave: corpora that grow, crashes, logs.
MADE = ROOT / ".bazel/fuzz"
# Of an input. A busy machine takes its time, and memory is of the whole process.
SECONDS, MEGABYTES, MEGABYTES_AT_ONCE = 10, 2048, 256
_STAT = re.compile(r"^stat::(\w+): +(\d+)$", re.MULTILINE)
_CRASH = re.compile(r"Test unit written to (\S+)")
LINE = "{:18} {:>12} {:>9} {:>6} {:>6}  {}"


@dataclasses.dataclass(frozen=True)
class Target:
    """One of the tree's fuzz targets."""
    package: str  # "input/fuzz"
    name: str     # "idx"

    @property
    def label(self):
        return f"//{self.package}:{self.name}_fuzz"

    @property
    def corpus(self):
        return ROOT / self.package / "corpus" / self.name


@dataclasses.dataclass
class Outcome:
    """What came of a run."""
    runs: int = 0
    per_second: int = 0
    new: int = 0
    megabytes: int = 0
    crash: str = ""  # Where the input lies, or what went wrong; empty: nothing.

    def line(self, name):
        return LINE.format(name, self.runs, self.per_second, self.new,
                           self.megabytes, self.crash or "no crash")


def targets():
    """All of the tree, by name."""
    tops = [top for top in ROOT.iterdir() if top.is_dir()
            and not top.name.startswith((".", "bazel-"))]
    found = [Target(path.parent.relative_to(ROOT).as_posix(),
                    path.name.removesuffix("_target.cc"))
             for top in tops for path in top.rglob("fuzz/*_target.cc")]
    return sorted(found, key=lambda target: target.name)


def outcome_of(text, code):
    """The Outcome that libFuzzer's words and exit code tell of."""
    stats = {key: int(value) for key, value in _STAT.findall(text)}
    outcome = Outcome(stats.get("number_of_executed_units", 0),
                      stats.get("average_exec_per_sec", 0),
                      stats.get("new_units_added", 0),
                      stats.get("peak_rss_mb", 0))
    crash = _CRASH.search(text)
    if crash:
        outcome.crash = f"CRASH: {crash[1]}"
    elif code != 0 or outcome.runs == 0:
        outcome.crash = f"CRASH: exit code {code}, without an input"
    return outcome


def bazel(*arguments, **how):
    return subprocess.run(
        ["bash", "-c", '. third_party/packages.sh && bazel_here "$@"', "bazel",
         *arguments], cwd=ROOT, check=True, text=True, **how)


def build(chosen):
    """Builds them; the folder of their programs."""
    bazel("build", "--config=fuzz", "--noshow_progress",
          *os.environ.get("BAZEL_OPTIONS", "").split(),
          *[target.label for target in chosen], stdout=sys.stderr)
    info = bazel("info", "--config=fuzz", "bazel-bin", stdout=subprocess.PIPE,
                 stderr=subprocess.DEVNULL)
    return pathlib.Path(info.stdout.strip())


def run(target, programs, seconds):
    """Runs one, from its corpus and what earlier runs have added to that."""
    grown = MADE / "corpus" / target.name
    grown.mkdir(parents=True, exist_ok=True)
    crashes = MADE / "crashes"
    crashes.mkdir(exist_ok=True)
    log = MADE / f"{target.name}.log"
    with open(log, "w", encoding="utf-8") as out:
        code = subprocess.run(
            [programs / target.package / f"{target.name}_fuzz",
             f"-max_total_time={seconds}", f"-timeout={SECONDS}",
             f"-rss_limit_mb={MEGABYTES}", f"-malloc_limit_mb={MEGABYTES_AT_ONCE}",
             "-print_final_stats=1", "-close_fd_mask=1",
             f"-artifact_prefix={crashes}/{target.name}-",
             grown, target.corpus],
            cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    return outcome_of(log.read_text(encoding="utf-8", errors="replace"), code)


def parse(arguments, known):
    parser = argparse.ArgumentParser(
        prog="tests/fuzz/run.py", description=__doc__.split("\n\n", 1)[1],
        epilog=f"Corpora grow in {MADE.relative_to(ROOT)}/corpus, and what crashed "
        "lies beside them, as do logs.")
    parser.add_argument("targets", nargs="*", metavar="TARGET",
                        help=f"which ones (default: all): {', '.join(known)}")
    parser.add_argument("--seconds", type=int, default=60,
                        help="of each (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="so many at once (default: one for each processor)")
    options = parser.parse_args(arguments)
    for name in options.targets:
        if name not in known:
            parser.error(f"there is no target '{name}'")
    return options


def main():
    known = {target.name: target for target in targets()}
    options = parse(sys.argv[1:], known)
    chosen = [known[name] for name in options.targets or known]
    programs = build(chosen)
    print(LINE.format("target", "runs", "a second", "new", "MB", ""), flush=True)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for target, outcome in zip(chosen, pool.map(
                lambda target: run(target, programs, options.seconds), chosen)):
            print(outcome.line(target.name), flush=True)
            failed = failed or bool(outcome.crash)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
