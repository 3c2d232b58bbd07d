"""The map of rooms, and the check that a source tree keeps to it.

A room is a folder at the top of the tree. `A: B` in MAY_INCLUDE reads "A may
include B and whatever B may include". A core (CORES) is a single-threaded object
that is told the time and handed its input: it may include a few rooms, other
cores below it, and headers that reach neither network, thread, lock, file nor
clock.
"""

import dataclasses
import fnmatch
import os
import re

MAY_INCLUDE = {
    "proto": [],
    "base": [],
    "tensor": ["base"],
    "config": ["proto", "tensor"],
    "net": ["config"],
    "checkpoint": ["config"],
    "server": ["net", "checkpoint"],
    "client": ["net"],
    "coordinator": ["net", "checkpoint"],
    "input": ["config"],
    "compute": ["input", "checkpoint"],
    "worker": ["compute", "client", "coordinator"],
    "process": ["worker", "server"],
    "cli": "all",
    "program": ["process"],
    "tests": "all",
    "bench": "all",
    "deploy": [],
    "docs": [],
    "third_party": [],
    "python": [],
    "examples": "all",
}

# A folder that is copied out of the tree, and built there.
_ELSEWHERE = "examples/custom_model/"

# A core, and the folders that it may include besides itself.
_UNDER_CORES = ["proto", "base", "tensor", "config"]
CORES = {
    "server/core": _UNDER_CORES,
    "client/core": _UNDER_CORES,
    "coordinator/core": _UNDER_CORES,
    "worker/core": _UNDER_CORES + ["client/core", "coordinator/core",
                                   "worker/strategy"],
    "worker/rendezvous": _UNDER_CORES,
    "worker/strategy": _UNDER_CORES + ["client/core", "coordinator/core",
                                       "worker/core"],
}

# What a worker does follows from its weights and its input: of what it is made of
# nothing draws numbers but these. docs/decisions/0024-workers-have-no-state.md
_DRAWS = ("base/random.h", "random", "absl/random/")
_OF_WORKERS = ("worker/", "compute/", "input/", "client/")
MAY_DRAW = {
    "input/example_order.cc",  # A function of seed and epoch.
    # Of seed, epoch, layer, the example's place in the epoch, and element.
    "compute/model/drops.cc",
    "compute/device/reference_device.cc",
    # Functions of seed, epoch and the offset in the epoch's order.
    "input/transform.h",
    "input/rand_augment.h",
    "input/cache_key.cc",  # A hash of texts.
    "input/kafka_topic.cc",  # A hash of keys.
    "input/combined_source.cc",  # Of seed and place.
    "input/own_map.h",
    "input/build_pipeline.cc",
    "input/sources.cc",  # A function of feature and index.
    "input/csv_feature.cc",  # A hash of texts.
    "input/describe_meaning.cc",  # The same.
    "client/core/session.cc",  # The first id of its requests, of no account.
}

# Any other name at the top of the tree needs a decision page.
TOP_LEVEL = set(MAY_INCLUDE) | {
    ".bazelignore", ".bazelrc", ".bazelrc.local", ".ci", ".clang-format",
    ".clang-tidy", ".git", ".gitignore", "BUILD", "CHANGELOG.md",
    "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "WORKSPACE",
    "quickstart.sh", "test.sh",
}

# Shells only, by what they stand for.
_BASE_FOR_SHELLS = {
    "base/chrome_trace.h": "lock", "base/clock.h": "clock", "base/log.h": "log",
    "base/mutex.h": "lock",
    "base/lock_cycles.h": "lock", "base/print.h": "file",
    "base/resource_limits.h": "thread", "base/worker_thread.h": "thread",
}

# All that a core may include of the standard library: nothing here waits,
# opens, asks for the time or draws from the machine's entropy.
_CORE_STANDARD = set("""
    algorithm any array atomic bit bitset cassert cctype cfloat charconv cinttypes
    climits cmath compare complex concepts cstdarg cstddef cstdint cstdlib cstring
    deque exception functional initializer_list iomanip iosfwd iterator limits list
    map memory new numeric optional ostream queue ratio set span sstream stack
    stdexcept string string_view tuple type_traits typeinfo unordered_map
    unordered_set utility variant vector version
    float.h immintrin.h inttypes.h limits.h math.h nmmintrin.h stddef.h stdint.h
    string.h x86intrin.h
""".split())

_CORE_LIBRARIES = ("absl/", "google/protobuf/", "gmock/", "gtest/")
_CORE_NOT_OF_ABSL = (
    "absl/debugging/", "absl/flags/", "absl/random/", "absl/synchronization/",
    "absl/time/clock.h",
)

# Reached without an #include of their own, through headers that a core needs.
_CORE_WORDS = re.compile(
    r"\bstd::(?:chrono|thread|jthread|this_thread|mutex|shared_mutex|"
    r"recursive_mutex|lock_guard|unique_lock|scoped_lock|condition_variable|"
    r"async|future|promise|i?o?fstream|filesystem|random_device|getenv|time)\b|"
    r"\babsl::(?:Now|SleepFor|GetCurrentTimeNanos|Mutex|Notification)\b|"
    r"\bgrpc::|"
    r"\b(?:fopen|clock_gettime|gettimeofday|getenv|nanosleep|pthread_\w+)\s*\(")

_SOURCE = (".h", ".cc", ".cu", ".cuh", ".inc", ".proto")
_INCLUDE = re.compile(
    r'^[ \t]*(?:#[ \t]*(?:include|import)|import(?:[ \t]+public)?)[ \t]*'
    r'(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Include:
    """One #include (or import) line."""
    line: int
    path: str
    quoted: bool


def includes_of(text):
    """The Includes of a source text; those in block comments count too."""
    return [
        Include(text.count("\n", 0, match.start(1 if match[1] else 2)) + 1,
                match[1] or match[2], bool(match[1]))
        for match in _INCLUDE.finditer(text)
    ]


def closure(room):
    """The rooms that `room` may include, itself among them."""
    below = MAY_INCLUDE[room]
    if below == "all":
        return set(MAY_INCLUDE)
    result = {room}
    for other in below:
        result |= closure(other)
    return result


def _without_comments_and_strings(text):
    return _COMMENT_OR_STRING.sub(
        lambda match: "\n" * match[0].count("\n"), text)


def core_of(path):
    """The core that `path` lies in, or None."""
    return next((c for c in CORES if path.startswith(c + "/")), None)


class Tree:
    """The sources below `root`, read once. Immutable after construction."""

    def __init__(self, root):
        self.root = root
        self.ignored = self._read_ignored()
        self.texts = dict(self._read_sources())
        self._includes = {p: includes_of(t) for p, t in self.texts.items()}

    def violations(self):
        """Sentences that name each file and line at odds with the map."""
        found = self._strangers_at_the_top()
        for path in sorted(self.texts):
            if "/" not in path:
                found.append(f"{path}: a source belongs in a room")
                continue
            found += self._check_arrows(path)
            found += self._check_drawing(path)
            if core_of(path):
                found += self._check_core(path)
        return found

    def _read_ignored(self):
        path = os.path.join(self.root, ".gitignore")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [line.strip().strip("/") for line in file
                    if line.startswith("/")]

    def _is_ignored(self, name):
        return any(fnmatch.fnmatch(name, p) for p in self.ignored)

    def _top(self):
        return sorted(n for n in os.listdir(self.root)
                      if not self._is_ignored(n))

    def _read_sources(self):
        for top in self._top():
            if top == ".git":
                continue
            start = os.path.join(self.root, top)
            if os.path.isfile(start):
                yield from self._read(top)
            for folder, _, names in os.walk(start):
                for name in names:
                    yield from self._read(os.path.relpath(
                        os.path.join(folder, name), self.root))

    def _read(self, path):
        if path.endswith(_SOURCE):
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                yield path, file.read()

    def _strangers_at_the_top(self):
        return [f"{name}: not on the map of rooms; a new name at the top needs "
                "a decision page" for name in self._top()
                if name not in TOP_LEVEL]

    def _check_arrows(self, path):
        room = path.split("/")[0]
        if room not in MAY_INCLUDE:
            return []  # already named as a stranger
        allowed = closure(room)
        found = []
        for include in self._includes[path]:
            where = f"{path}:{include.line}: includes {include.path}"
            other = include.path.split("/")[0]
            if "/" in include.path and other in MAY_INCLUDE:
                if other not in allowed:
                    found.append(f"{where}: {room}/ may not include {other}/")
            elif (include.quoted and not path.startswith(_ELSEWHERE) and
                  os.path.normpath(os.path.join(
                      os.path.dirname(path), include.path)) in self.texts):
                found.append(f"{where}: write paths from the top of the tree")
            elif (include.path.startswith("absl/synchronization/") and
                  room != "base"):
                found.append(f"{where}: use base/mutex.h")
        return found

    def _check_drawing(self, path):
        if (not path.startswith(_OF_WORKERS) or path in MAY_DRAW or
                "/testing/" in path or path.endswith("_test.cc")):
            return []
        return [f"{path}:{include.line}: includes {include.path}: a worker has "
                "no state, and nothing to draw"
                for include in self._includes[path]
                if include.path.startswith(_DRAWS)]

    def _check_core(self, path):
        """The core's own lines, and those of every header that it reaches."""
        core = core_of(path)
        found = [f"{path}:{line}: uses {word}: a core has no network, thread, "
                 "lock, file or clock" for line, word in self._words(path)]
        queue, seen = [(path, "")], {path}
        while queue:
            at, through = queue.pop(0)
            for include in self._includes.get(at, []):
                reason = self._why_not_in_core(core, include)
                if reason:
                    found.append(f"{path}: includes {include.path}{through}: "
                                 f"{reason}")
                elif include.path in self.texts and include.path not in seen:
                    seen.add(include.path)
                    queue.append((include.path,
                                  f" (through {include.path}{through})"))
        return found

    def _words(self, path):
        text = _without_comments_and_strings(self.texts[path])
        for match in _CORE_WORDS.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match[0]

    @staticmethod
    def _why_not_in_core(core, include):
        path = include.path
        room = path.split("/")[0]
        if path in _BASE_FOR_SHELLS:
            return f"a core has no {_BASE_FOR_SHELLS[path]}"
        if "/" in path and room in MAY_INCLUDE:
            allowed = CORES[core] + [core]
            if any(path.startswith(a + "/") for a in allowed):
                return None
            return f"{core}/ may include only {', '.join(CORES[core])}"
        if path.startswith(_CORE_NOT_OF_ABSL):
            return "a core has no clock, lock or entropy"
        if path in _CORE_STANDARD or path.startswith(_CORE_LIBRARIES):
            return None
        return "not among the headers that a core may include"
