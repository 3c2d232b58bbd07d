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
        "enlistments",
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
# Per core: what calls the parts, and is included by none of them.
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

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


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
    return [f"{path}: includes {other}: parts tell each other nothing but facts"
            for other in _INCLUDE.findall(text) if other in others]
