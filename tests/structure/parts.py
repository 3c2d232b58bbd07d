"""Cores that are divided into parts, and the check that they stay so.

A part owns its fields and tells the others what they must know through the
dispatcher alone, which calls the parts in one written order.
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
        "input_ledger",
        "joins",
        "leaving",
        "mode_changes",
        "portion_ledger",
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

_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_CLASS = re.compile(r"(?<!enum )\bclass (\w+)(?: final)?(?:\s*:[^;{]*)? \{")
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
    """(name, methods, fields) of each class of a header that is not nested."""
    text = _NOT_CODE.sub("", text)
    for match in _CLASS.finditer(text):
        methods = fields = 0
        for line in _body(text, match.end() - 1).split(";"):
            line = re.sub(r"\b(?:public|private|protected):", "", line)
            line = re.sub(r"=.*", "", line, flags=re.DOTALL).strip()
            if not line or re.match(r"(?:using|enum|struct|class|friend|"
                                    r"static constexpr)\b", line):
                continue
            if re.search(r"\w_$", line):
                fields += 1
            elif "(" in line:
                methods += 1
        yield match[1], methods, fields


def violations(root):
    """Sentences that name each part at odds with the rules."""
    found = []
    for core, parts in PARTS.items():
        for part in parts + DISPATCHERS[core]:
            for ending in (".h", ".cc"):
                path = f"{core}/{part}{ending}"
                if os.path.exists(os.path.join(root, path)):
                    found += _check(root, path, core, part, parts)
            if not os.path.exists(os.path.join(root, core, part + ".h")):
                found.append(f"{core}/{part}.h: there is no such part")
    return found


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
    for name, methods, fields in class_sizes(text):
        if methods > MOST_METHODS:
            found.append(f"{path}: {name} has {methods} methods; "
                         f"{MOST_METHODS} at most")
        if fields > MOST_FIELDS:
            found.append(f"{path}: {name} has {fields} fields; "
                         f"{MOST_FIELDS} at most")
    return found
