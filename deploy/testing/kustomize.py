"""Renders the kustomizations of this folder without kustomize.

Supports what they use and rejects the rest: resources (files and folders) and JSON
patches whose target is a kind and a name. Where kubectl is installed,
manifests_test compares the result with that of `kubectl kustomize`.
"""

import copy
import os

import yaml

_KEYS = {"apiVersion", "kind", "resources", "patches"}


def load(path):
    """The objects of a file of YAML documents."""
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def render(folder):
    """The objects that `kubectl kustomize folder` prints, in no order."""
    (kustomization,) = load(os.path.join(folder, "kustomization.yaml"))
    unknown = set(kustomization) - _KEYS
    if unknown:
        raise ValueError(f"{folder}: keys that are not understood: {unknown}")
    objects = []
    for name in kustomization["resources"]:
        path = os.path.join(folder, name)
        objects += render(path) if os.path.isdir(path) else load(path)
    for entry in kustomization.get("patches", []):
        (operations,) = load(os.path.join(folder, entry["path"]))
        target = entry["target"]
        hit = [o for o in objects if o["kind"] == target["kind"] and
               o["metadata"]["name"] == target["name"]]
        if not hit:
            raise ValueError(f"{folder}: there is no {target}")
        for changed in hit:
            for operation in operations:
                patch(changed, operation)
    return objects


def patch(document, operation):
    """Applies one add, replace or remove of RFC 6902 to `document`."""
    steps = [step.replace("~1", "/").replace("~0", "~")
             for step in operation["path"].split("/")[1:]]
    holder = document
    for step in steps[:-1]:
        holder = holder[int(step) if isinstance(holder, list) else step]
    key = steps[-1]
    if operation["op"] not in ("add", "replace", "remove"):
        raise ValueError(f"not understood: {operation}")
    if operation["op"] != "add":
        holder[int(key) if isinstance(holder, list) else key]  # Must be there.
    if operation["op"] == "remove":
        del holder[int(key) if isinstance(holder, list) else key]
        return
    value = copy.deepcopy(operation["value"])
    if isinstance(holder, list) and operation["op"] == "add":
        holder.insert(len(holder) if key == "-" else int(key), value)
    else:
        holder[int(key) if isinstance(holder, list) else key] = value
