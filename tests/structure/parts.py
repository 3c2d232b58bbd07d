"""Cores that are divided into parts, how large a class may be, and the checks
that they stay so.

A part owns its fields and tells the others what they must know through the
dispatcher alone, which calls the parts in one written order. A class of any
room holds one conversation: past MOST_METHODS and MOST_FIELDS it is several.
"""

import os
import re

# Per core: its parts, by the names of their headers.
PARTS = {
    "coordinator/core": [
        "checkpoint_schedule",
        "checkpoints",
        "ending",
        "evaluations",
        "growing_input",
        "input_ledger",
        "joins",
        "leaving",
        "mode_changes",
        "portion_ledger",
        "requested_checkpoints",
        "retirement",
        "servers",
        "sessions",
        "startup",
        "step_ledger",
        "summary_writer",
    ],
    "server/core": [
        "departure",
        "restorer",
        "session_gate",
        "snapshot_keeper",
        "step_keeper",
        "worker_calls",
    ],
    "worker/core": [
        "computation",
        "heartbeats",
        "input_leases",
        "joining",
        "worker_evaluation",
    ],
    "worker/strategy": [
        "async_plan",
        "sync_plan",
    ],
}
# Parts that another one is made of; nobody else includes them.
OWNED = {
    "coordinator/core": {
        "input_ledger": ["portion_ledger", "step_ledger"],
        "portion_ledger": ["growing_input"],
    },
}
# Per core: what calls the parts, has their size, and is included by none of
# them.
DISPATCHERS = {
    "coordinator/core": [
        "coordinator_parts",
        "dispatcher",
        "fact_router",
        "job_report",
    ],
    "server/core": ["shard"],
    "worker/core": ["session_state", "worker"],
    "worker/strategy": [],
}

MOST_LINES = 150  # Of a part's header.
MOST_METHODS = 30
MOST_FIELDS = 20

# Folders whose classes may be larger. The simulator plays a whole cluster and
# checks all of it in one place; fakes have what a test wants to know.
UNMEASURED = ("tests/", "testing/")
# Classes that are larger all the same, by path, each with the reason.
EXCEPTIONS = {
    "client/core/session.h": {
        "Session": "chunks of pulls, lookups and pushes share calls and retries",
    },
    "server/core/shard_content.h": {
        "ShardContent": "checks and answers of chunks are to leave it, with what "
                        "a table's bucket needs of its own",
    },
    "worker/device/device.h": {
        "Device": "a method for each primitive that layers call",
    },
    "worker/device/reference_device.h": {
        "ReferenceDevice": "a method for each primitive that layers call",
    },
}

_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A class that is defined, not one that is named; nested ones too.
_CLASS = re.compile(r"(?<!enum )(?<!friend )\bclass "
                    r"(?:[A-Z_]+(?:\([^()]*\))? )?"
                    r"(\w+)(?: final)?(?:\s*:(?!:)[^;{}]*)?\s*\{")
_MACRO = re.compile(r"\bABSL_\w+\s*\([^()]*\)")  # ABSL_GUARDED_BY(mutex_)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def _body(text, begin):
    """The text between the brace at `begin` and its own, without what is in
    braces there."""
    depth, kept = 0, []
    for at in range(begin, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return "".join(kept)
            if depth == 1:
                kept.append(";")
        elif depth == 1:
            kept.append(text[at])
    return "".join(kept)


def class_sizes(text):
    """(name, methods, fields) of each class, one inside of another included."""
    text = _NOT_CODE.sub("", text)
    for match in _CLASS.finditer(text):
        methods = fields = 0
        for line in _body(text, match.end() - 1).split(";"):
            line = re.sub(r"\b(?:public|private|protected):", "", line)
            line = re.sub(r"=.*", "", _MACRO.sub("", line), flags=re.DOTALL)
            line = re.sub(r"(?:\[\w*\]\s*)+$", "", line.strip()).strip()
            if not line or re.match(r"(?:using|enum|struct|class|friend|"
                                    r"static constexpr)\b", line):
                continue
            if re.search(r"\w_$", line):
                fields += 1
            elif "(" in line:
                methods += 1
        yield match[1], methods, fields


def violations(root):
    """Sentences that name each part and each class at odds with the rules."""
    found = []
    for core, parts in PARTS.items():
        for part in parts + DISPATCHERS[core]:
            for ending in (".h", ".cc"):
                path = f"{core}/{part}{ending}"
                if os.path.exists(os.path.join(root, path)):
                    found += _check(root, path, core, part, parts)
            if not os.path.exists(os.path.join(root, core, part + ".h")):
                found.append(f"{core}/{part}.h: there is no such part")
    return found + too_large(root)


def too_large(root):
    """Sentences that name each class that is too large, and each exception that
    is none any more."""
    found = []
    unused = {(path, name) for path, names in EXCEPTIONS.items()
              for name in names if os.path.exists(os.path.join(root, path))}
    for path in _sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            sizes = list(class_sizes(file.read()))
        for name, methods, fields in sizes:
            if methods <= MOST_METHODS and fields <= MOST_FIELDS:
                continue
            if name in EXCEPTIONS.get(path, {}):
                unused.discard((path, name))
            elif methods > MOST_METHODS:
                found.append(f"{path}: {name} has {methods} methods; "
                             f"{MOST_METHODS} at most")
            else:
                found.append(f"{path}: {name} has {fields} fields; "
                             f"{MOST_FIELDS} at most")
    return found + [f"{path}: {name} is no exception any more"
                    for path, name in sorted(unused)]


def _sources(root):
    """Paths of all C++ files whose classes are measured."""
    for folder, folders, names in os.walk(root):
        below = os.path.relpath(folder, root).replace(os.sep, "/") + "/"
        below = "" if below == "./" else below
        folders[:] = sorted(
            name for name in folders
            if not name.startswith((".", "bazel-"))
            and not (below + name + "/").endswith(UNMEASURED))
        for name in sorted(names):
            if name.endswith((".h", ".cc")):
                yield below + name


def _check(root, path, core, part, parts):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    dispatchers = DISPATCHERS[core]
    allowed = [part] + OWNED.get(core, {}).get(part, [])
    others = {f"{core}/{other}.h" for other in parts + dispatchers
              if part not in dispatchers and other not in allowed}
    found = [f"{path}: includes {other}: parts tell each other nothing but facts"
             for other in _INCLUDE.findall(text) if other in others]
    if not path.endswith(".h"):
        return found
    lines = text.count("\n")
    if lines > MOST_LINES:
        found.append(f"{path}: {lines} lines; {MOST_LINES} at most")
    return found
