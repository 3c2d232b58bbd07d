"""Builds and runs the tests, and counts what came of them: see ./test.sh --help.

The one idea: a number that cannot be flattered. It is counted from the runners'
result files. A test that should have run and left no result has failed. A test that
failed runs once more, alone: if it passes then, it counts as passed and is listed as
flaky.
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE_BYTES = 20_000_000_000  # Of the disk cache, at the beginning of a run.
# Of `timeout`, which interrupts Bazel when the time is up, or kills it.
OUT_OF_TIME = (124, 137)
# What Bazel says of a test that it could not finish.
INTERRUPTED = (["incomplete"], ["no_status"])
# So many tests are tried once more: more do not fail by chance.
MOST_AGAIN = 10
PYTHON_PACKAGES = ["safetensors>=0.4", "numpy>=1.24", "tensorboard==2.19.*",
                   "kubernetes-validate", "mypy>=1.8"]
# Alone: it would bring another Protobuf than the distribution's, and needs none.
ONNXRUNTIME = ["--no-deps", "onnxruntime>=1.19", "flatbuffers", "packaging"]
# Parquet's reader, 50 MB; NumPy is there.
PYARROW = ["--no-deps", "pyarrow>=12"]
# PyTorch without the largest of its GPU packages, which a CUDA toolkit brings too,
# and the small ones that it needs.
TORCH = ["torch", "nvidia-cufile", "nvidia-cusparselt-cu13",
         "nvidia-nvshmem-cu13", "nvidia-nccl-cu13"]
FRAMEWORKS = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2",
              "fsspec", "keras", "jax"]
FRAMEWORK_FOLDERS = ("python/", "program/", "client/")
# Of the simulator's planted bugs so many are looked for under --all.
PLANTED_BUGS = 12
# What computes, and the processors that OpenBLAS and oneDNN can be told to be.
COMPUTING = ("client", "compute", "input", "process", "program", "server/core",
             "tensor", "tests/resident", "worker")
PROCESSORS = {
    "OPENBLAS_CORETYPE": ["Prescott", "Sandybridge", "Haswell", "Zen", "SkylakeX"],
    "ONEDNN_MAX_CPU_ISA": ["SSE41", "AVX2", "AVX512_CORE"],
}
# Packages without threads: ThreadSanitizer has nothing to look for there.
SINGLE_THREADED = ("client/core", "config", "coordinator/core", "proto",
                   "server/core", "tests/sim", "worker/core",
                   "worker/rendezvous", "worker/strategy")


# What came of tests ---------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What came of one test target."""
    passed: list = dataclasses.field(default_factory=list)
    failed: dict = dataclasses.field(default_factory=dict)  # Case: what it said.
    skipped: list = dataclasses.field(default_factory=list)  # (case, reason)


def first_line(text):
    lines = [line.strip() for line in (text or "").splitlines()]
    return next((line for line in lines if line), "")


def said(text):
    """(place, sentence) of what a case said; the place is empty if there is none."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if len(lines) > 1 and re.fullmatch(r"\S+:\d+", lines[0]):
        return lines[0], lines[1]
    return "", first_line(text)


def read_cases(path, outcome):
    """Adds the cases of a test.xml to the outcome."""
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name')}".lstrip(".")
        bad = case.find("failure")
        if bad is None:
            bad = case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            outcome.failed[name] = ": ".join(
                part for part in said(bad.get("message") or bad.text) if part)
        elif skipped is not None:
            reason = said(skipped.get("message") or skipped.text)[1]
            outcome.skipped.append((name, reason or "without a reason"))
        elif case.get("status") == "notrun":
            outcome.skipped.append((name, "disabled"))
        else:
            outcome.passed.append(name)


def outcome_of(shards):
    """The Outcome of one target from the Bazel result of each of its shards."""
    outcome = Outcome()
    status = "PASSED"
    for result in shards.values():
        files = {file["name"]: file.get("uri", "")
                 for file in result.get("testActionOutput", [])}
        path = urllib.parse.unquote(
            urllib.parse.urlparse(files.get("test.xml", "")).path)
        try:
            read_cases(path, outcome)
        except (OSError, ElementTree.ParseError):
            status = "without a readable test.xml"
        if result.get("status") != "PASSED":
            status = result.get("status", "without a status")
    if status != "PASSED" and not outcome.failed:
        outcome.failed[""] = status.lower()
    return outcome


def outcomes_of(lines):
    """{label: Outcome} of Bazel's events; of each shard the last attempt counts."""
    tests = collections.defaultdict(dict)
    newest = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # An interrupted Bazel's last line.
        key = event.get("id", {}).get("testResult")
        if key and "testResult" in event:
            shard = (key["label"], key.get("run", 1), key.get("shard", 1))
            attempt = key.get("attempt", 1)
            if newest.get(shard, 0) <= attempt:
                newest[shard] = attempt
                tests[key["label"]][shard] = event["testResult"]
    return {label: outcome_of(shards) for label, shards in tests.items()}


class Tally:
    """What passed, failed, was flaky and was skipped so far."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.flaky = []
        self.skipped = []  # (name, reason)

    def add(self, title, outcome, again=None):
        """Counts one target. `again`: what came of it when it ran alone, because
        it had failed."""
        last = again or outcome
        self.passed += len(last.passed)
        self.skipped += [(f"{title} {name}".strip(), reason)
                         for name, reason in last.skipped]
        for name, said in last.failed.items():
            self.failed.append(f"{title} {name}".strip() +
                               (f" ({said})" if said else ""))
        if again:
            self.flaky += [f"{title} {name}".strip() + f" ({said})"
                           for name, said in outcome.failed.items()
                           if name not in again.failed]

    def report(self, verbose, out):
        """Prints all of it, what failed just above the count; returns the exit
        code."""
        reasons = collections.defaultdict(list)
        for name, reason in self.skipped:
            reasons[reason].append(name)
        for reason, names in sorted(reasons.items()):
            print(f"skipped: {len(names)}: {reason}", file=out)
            for name in names if verbose else []:
                print(f"  {name}", file=out)
        for name in self.flaky:
            print(f"flaky: {name}", file=out)
        for name in self.failed:
            print(f"FAILED: {name}", file=out)
        print(f"{self.passed} passed, {len(self.failed)} failed", file=out)
        return 0 if self.passed and not self.failed else 1


# What changed ---------------------------------------------------------------


def package_of(path, root):
    """The package of a file below `root`; None if it is in none."""
    folder = (root / path).parent
    while not (folder / "BUILD").exists():
        if folder == root:
            return None
        folder = folder.parent
    folder = folder.relative_to(root).as_posix()
    return "" if folder == "." else folder


def changed_files():
    """Paths of what the commits change that the upstream branch does not have, or
    else those of the last day before HEAD; all files without a history."""
    def git(*arguments):
        run = subprocess.run(["git", *arguments], cwd=ROOT, text=True,
                             capture_output=True, check=False)
        return run.stdout.strip() if run.returncode == 0 else ""
    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "@{upstream}")
    if base in ("", head):
        day = int(git("log", "-1", "--format=%ct") or 0) - 86400
        base = git("rev-list", "-1", f"--before={day}", "HEAD")
    if not base:
        return git("ls-files").splitlines()
    return git("diff", "--name-only", base, "HEAD").splitlines()


def changed_packages(files, root):
    """Packages of which sources changed: BUILD files and pages are none."""
    return sorted({package_of(path, root) for path in files
                   if path.endswith((".cc", ".h", ".cu", ".cuh", ".proto", ".py"))}
                  - {None})


# The build ------------------------------------------------------------------


def say(text):
    print(f"== {text}", flush=True)


def toolchain_name():
    """A name for what compiles and what is compiled against: outputs of one state
    of the machine's packages are of no use in another. Bazel does not see it."""
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version}\n",
         "*-dev", "binutils*", "clang*", "cpp*", "g++*", "gcc*",
         "protobuf-compiler*", "python3*"],
        capture_output=True, text=True, check=False).stdout
    used = sorted({line for line in listed.splitlines()
                   if line.startswith("installed ") and
                   not line.startswith("installed golang")})
    return hashlib.sha256("\n".join(used).encode()).hexdigest()[:16]


def forget_oldest(folder, most_bytes):
    """Removes files until no more than so many bytes are left, those first that
    were not read for the longest time."""
    files = []
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            files.append((stat.st_atime, stat.st_size, path))
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= most_bytes:
            return
        path.unlink(missing_ok=True)
        left -= size


def _try(script, *arguments):
    """Runs lines of bash, and prints what they failed with."""
    run = subprocess.run(
        ["bash", "-ec", f". third_party/packages.sh; {script}", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(first_line(run.stderr), "\ngoing on without it")


class Build:
    """Bazel in this tree, with its cache and a limit of time."""

    def __init__(self, options):
        self.begin = time.monotonic()
        self.install = options.install
        self.limit = None  # Seconds since the beginning; None: none.
        self.made = ROOT / ".bazel"
        self.made.mkdir(exist_ok=True)
        self.events = self.made / "test-events"
        shutil.rmtree(self.events, ignore_errors=True)
        self.events.mkdir()
        self.cache, self.cached = self.made / "cache", []
        if options.cache:
            self._open_cache()
        self.python = "/usr/bin/python3"

    def _open_cache(self):
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(
            os.environ.get("HOME", self.made), ".cache")
        folder = pathlib.Path(home) / "paramd"
        try:
            self.cache = folder / toolchain_name()
            (self.cache / "bazel").mkdir(parents=True, exist_ok=True)
            os.utime(self.cache)
        except OSError as error:
            print(f"going on without a cache: {error}")
            self.cache = self.made / "cache"
            return
        old = time.time() - 14 * 86400  # Of packages that are gone.
        for other in folder.iterdir():
            if other.is_dir() and other.stat().st_mtime < old:
                shutil.rmtree(other, ignore_errors=True)
        forget_oldest(self.cache / "bazel", CACHE_BYTES)
        self.cached = [f"--disk_cache={self.cache / 'bazel'}"]

    def seconds(self):
        """Since the beginning."""
        return time.monotonic() - self.begin

    def time_is_up(self):
        return self.limit is not None and self.seconds() >= self.limit

    def bazel(self, *arguments, **how):
        """Runs Bazel with its outputs in .bazel, until the limit; its exit code is
        one of OUT_OF_TIME then."""
        environment = dict(os.environ)
        if self.limit is not None:
            left = max(1, int(self.limit - self.seconds()))
            environment["BAZEL_SECONDS"] = str(left)
        return subprocess.run(
            ["bash", "-c", '. third_party/packages.sh && bazel_here "$@"', "bazel",
             *arguments], cwd=ROOT, env=environment, check=False, **how)

    def query(self, expression):
        """Labels, sorted; None if packages could not be loaded."""
        with open(self.events / "query.log", "a", encoding="utf-8") as log:
            run = self.bazel("query", "--noshow_progress", expression,
                             stdout=subprocess.PIPE, stderr=log, text=True)
        return sorted(run.stdout.split()) if run.returncode == 0 else None

    def test(self, config, labels, *more):
        """Builds and runs tests; ({label: Outcome}, Bazel's exit code)."""
        if not labels:
            return {}, 0
        events, targets = self.events / "events", self.events / "targets"
        events.unlink(missing_ok=True)
        targets.write_text("\n".join(labels), encoding="utf-8")
        progress = f"--{'' if sys.stderr.isatty() else 'no'}show_progress"
        run = self.bazel(
            "test", "--keep_going", progress, *self.cached, *config,
            "--build_tests_only", f"--build_event_json_file={events}",
            f"--test_env=PARAMD_PYTHON={self.python}",
            "--test_env=PARAMD_PJRT_PLUGIN", *more,
            f"--target_pattern_file={targets}")
        if run.returncode == 8:
            sys.exit("interrupted")
        lines = events.read_text(encoding="utf-8", errors="replace").splitlines() \
            if events.exists() else []
        return outcomes_of(lines), run.returncode

    def make_python(self, frameworks):
        """A Python with packages of PyPI beside those of the distribution. Without
        it the tests that need them skip themselves."""
        self._pip("safetensors, tensorboard, kubernetes_validate, mypy",
                  PYTHON_PACKAGES)
        self._pip("onnxruntime", ONNXRUNTIME)
        self._pip("pyarrow", PYARROW)
        if frameworks:
            self._pip("keras, jax", FRAMEWORKS)
            self._pip("torch", ["--no-deps", *TORCH])
            # Where there is no CUDA toolkit. TensorBoard needs what later ones lack.
            self._pip("torch", ["torch", "setuptools<81"])
        python = self.cache / "python/bin/python"
        if python.exists():
            self.python = str(python)

    def _pip(self, modules, packages):
        """Installs packages, unless the modules can be imported."""
        folder = self.cache / "python"
        python = folder / "bin/python"

        def has_all():
            return python.exists() and all(subprocess.run(
                [python, "-c", f"import {module}"], capture_output=True,
                env=os.environ | {"KERAS_BACKEND": "jax"},
                check=False).returncode == 0 for module in modules.split(", "))
        if not self.install or has_all():
            return
        print(f"installing {modules} in {folder}", flush=True)
        for command in (
                ["/usr/bin/python3", "-m", "venv", "--system-site-packages", folder],
                [python, "-m", "pip", "install", "--quiet", *packages]):
            run = subprocess.run(command, capture_output=True, text=True,
                                 check=False)
            if run.returncode != 0:
                print("\n".join((run.stdout + run.stderr).splitlines()[-5:]))
                print("going on without them", flush=True)
                return

    def fetch_programs(self):
        """Puts promtool and etcd beside that Python, out of Debian's packages: the
        packages themselves would bring daemons and their users, prometheus 300 MB."""
        for package, program in (("prometheus", "promtool"), ("etcd-server", "etcd")):
            self._fetch_program(package, program)

    def _fetch_program(self, package, program):
        programs = self.cache / "python/bin"
        if not self.install or not programs.exists() or \
                (programs / program).exists() or shutil.which(program):
            return
        print(f"fetching {program} to {programs}", flush=True)
        _try("""folder=.bazel/$1 && rm -rf $folder && mkdir $folder
             (cd $folder && { apt-get download "$1" ||
                { as_root apt-get update && apt-get download "$1"; }; } &&
              dpkg-deb --fsys-tarfile "$1"_*.deb |
                tar --extract "./usr/bin/$2" && mv "usr/bin/$2" "$0")
             rm -rf $folder""", programs, package, program)

    def install_browser(self):
        """Chromium, in which the status page is tested."""
        if not self.install or shutil.which("chromedriver"):
            return
        print("installing chromium-driver, python3-selenium", flush=True)
        _try("install_packages chromium-driver python3-selenium")


# The run --------------------------------------------------------------------


class Run:
    """One run of the suite: its steps, each of which adds to the tally."""

    def __init__(self, build, tally):
        self.build = build
        self.tally = tally

    def tests(self, name, labels, config=(), listed_when_late=False):
        """Runs tests as configuration `name`, and once more what failed. What did
        not run failed; with listed_when_late, if the time was up, it is skipped."""
        say(f"{name}: {len(labels)} test targets")
        outcomes, code = self.build.test(config, labels)
        late = listed_when_late and code in OUT_OF_TIME
        if late:  # What was interrupted has not run.
            outcomes = {label: outcome for label, outcome in outcomes.items()
                        if list(outcome.failed.values()) not in INTERRUPTED}
        failed = [label for label, outcome in outcomes.items() if outcome.failed]
        again = {}
        if len(failed) <= MOST_AGAIN:
            limit, self.build.limit = self.build.limit, None
            for label in failed:
                say(f"{name}: {label} failed, and runs once more, alone")
                once, _ = self.build.test(
                    config, [label], "--nocache_test_results",
                    "--local_test_jobs=1")
                if label in once:
                    again[label] = once[label]
            self.build.limit = limit
        for label in sorted({*labels, *outcomes}):
            title = f"{name} {label}"
            if label in outcomes:
                self.tally.add(title, outcomes[label], again.get(label))
            elif late:
                self.tally.skipped.append((title, f"{name}: the time was up"))
            else:
                self.tally.failed.append(f"{title} was not built or not run")
        if code not in (0, 3) and not late:
            self.tally.failed.append(
                f"{name}: not everything could be built (Bazel's exit code {code})")

    def skip(self, labels, reason):
        self.tally.skipped += [(label, reason) for label in labels]

    def sanitized(self, name, labels, tagged):
        """Runs tests with a sanitizer, while there is time."""
        for tag in ("slow", f"no_{name}"):
            labels = [label for label in labels if label not in tagged[tag]]
        if name == "tsan":
            labels = [label for label in labels
                      if not re.match(f"//({'|'.join(SINGLE_THREADED)})[/:]", label)]
        if self.build.time_is_up():
            self.skip([f"{name} {label}" for label in labels],
                      f"{name}: the time was up")
            return
        config = [f"--config={name}"]
        if name == "tsan" and _random_bits() > 28:
            # gcc 12's finds no place for its memory there.
            config.append("--run_under=setarch -R")
        self.tests(name, labels, config, listed_when_late=True)

    def processors(self, labels):
        """Runs what computes as other processors compute it: tolerances follow from
        magnitudes and roundings, never from one processor's sums."""
        labels = [label for label in labels
                  if re.match(f"//({'|'.join(COMPUTING)})[/:]", label)]
        for variable, kinds in PROCESSORS.items():
            for kind in kinds:
                self.tests(kind, labels, [f"--test_env={variable}={kind}"])

    def counted(self, title, right, command, **environment):
        """Runs a program, and counts its lines behind a heading that are right."""
        say(title)
        run = subprocess.run(
            command, cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "BAZEL_OPTIONS": " ".join(self.build.cached),
                 **environment})
        print(run.stdout, flush=True)
        lines = run.stdout.splitlines()[1:]
        wrong = [line for line in lines if not re.match(right, line)]
        self.tally.passed += len(lines) - len(wrong)
        if run.returncode != 0 and not wrong:
            wrong = [f"ended with exit code {run.returncode}"]
        self.tally.failed += [f"{title.split(':')[0]}: {line}" for line in wrong]

    def planted(self):
        """Shows that the simulator finds the bugs planted for it."""
        base = self.build.bazel("info", "output_base", text=True,
                                stdout=subprocess.PIPE).stdout.strip()
        self.counted(
            f"planted bugs: {PLANTED_BUGS}, others with every commit",
            r"\S+ +\d+  ", ["tests/sim/find_planted.sh", f"--slice={PLANTED_BUGS}"],
            BAZEL=f"bazel --output_user_root={self.build.made} "
                  f"--output_base={base}", COPY=str(self.build.made / "planted"))

    def clang(self):
        """Checks the annotations of locks, and that each source includes what it
        needs."""
        say("clang: thread-safety analysis")
        run = self.build.bazel(
            "build", "--config=clang", "--output_groups=compilation_outputs",
            "--keep_going", "--noshow_progress", *self.build.cached, "//...")
        if run.returncode != 0:
            self.tally.failed.append(
                f"clang: not everything builds (exit code {run.returncode})")


def _random_bits():
    try:
        return int(pathlib.Path("/proc/sys/vm/mmap_rnd_bits").read_text())
    except (OSError, ValueError):
        return 28


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./test.sh", description=(
        'Installs what the tests need, runs them, and ends with the line '
        '"N passed, N failed". Exits 0 if nothing failed.'))
    parser.add_argument("--all", action="store_true", help=(
        "also slow tests, planted bugs, clang's analysis, a minute of each fuzz target "
        "and both sanitizers for everything: hours"))
    parser.add_argument("--changed", action="store_true", help=(
        "also both sanitizers for the packages whose sources the newest commits "
        "change, until --minutes are over"))
    parser.add_argument("--processors", action="store_true", help=(
        "also what computes, as each of eight kinds of processors does"))
    parser.add_argument("--minutes", type=int, default=45, help=(
        "with --changed: when sanitizers are interrupted; what did not run is "
        "listed (default: %(default)s)"))
    parser.add_argument("--verbose", action="store_true",
                        help="list each skipped test below its reason")
    parser.add_argument("--no-cache", dest="cache", action="store_false", help=(
        "begin from nothing. Else what any clone of this tree has built and tested "
        "before is taken from ~/.cache/paramd ($XDG_CACHE_HOME), which grows to "
        "20 GB and then forgets what is longest unused"))
    parser.add_argument("--no-install", dest="install", action="store_false",
                        help="install nothing; go on with what is there")
    return parser.parse_args(arguments)


def run_all(options, build, tally):
    """Every step that the options ask for."""
    run = Run(build, tally)
    changed = changed_packages(changed_files(), ROOT)
    build.make_python(options.all or (options.changed and any(
        (package + "/").startswith(FRAMEWORK_FOLDERS) for package in changed)))
    if options.all or options.changed:
        build.fetch_programs()
    if options.all:
        build.install_browser()
    manual = "attr(tags, '[\\[ ]manual[,\\]]', tests(//...))"
    labels = build.query(f"tests(//...) except {manual}")
    if labels is None:
        tally.failed.append("packages could not be loaded: " + first_line(
            "\n".join(line for line in (build.events / "query.log").read_text(
                encoding="utf-8").splitlines() if "ERROR" in line)))
        return
    tagged = {tag: set(build.query(f"attr(tags, '[\\[ ]{tag}[,\\]]', tests(//...))"))
              for tag in ("slow", "no_asan", "no_tsan")}
    slow = [label for label in labels if label in tagged["slow"]]
    run.tests("plain", [label for label in labels if label not in tagged["slow"]])
    if options.processors:
        run.processors([label for label in labels if label not in slow])
    if options.all:
        run.tests("slow", slow, ["--local_test_jobs=1"])
        run.planted()
        run.clang()
        run.counted("fuzz: a minute for each target", r".* no crash$",
                    ["tests/fuzz/run.py", "--seconds=60"])
        for name in ("asan", "tsan"):
            run.sanitized(name, labels, tagged)
        return
    run.skip(slow, "slow: only with --all")
    run.skip(["planted bugs", "clang's analysis", "fuzz targets"], "only with --all")
    if options.changed:
        own = [label for label in labels
               if label[2:].split(":")[0] in changed]
        for share, name in ((0.5, "asan"), (1, "tsan")):
            build.limit = build.seconds() + share * max(
                0, options.minutes * 60 - build.seconds())
            run.sanitized(name, own, tagged)
        build.limit = None
    else:
        run.skip(["asan", "tsan"], "only with --changed or --all")


def main():
    options = parse(sys.argv[1:])
    tally = Tally()
    run_all(options, Build(options), tally)
    sys.exit(tally.report(options.verbose, sys.stdout))


if __name__ == "__main__":
    main()
