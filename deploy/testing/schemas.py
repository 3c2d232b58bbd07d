"""Checks objects against schemas: Kubernetes' own and custom_resources.yaml.

Needs kubernetes-validate of PyPI, which brings the schemas and jsonschema.
"""

import functools
import os

import jsonschema
import kubernetes_validate
import yaml

# The oldest version that knows all that deploy/ uses, and the newest that the
# package has.
VERSIONS = ("1.29", kubernetes_validate.latest_version())
_METADATA = {"name", "labels", "annotations", "namespace"}
# It would read all definitions again for each object.
kubernetes_validate.utils.schema_contents = functools.lru_cache(maxsize=None)(
    kubernetes_validate.utils.schema_contents)

with open(os.path.join(os.path.dirname(__file__), "custom_resources.yaml"),
          encoding="utf-8") as _file:
    _CUSTOM = yaml.safe_load(_file)


class Wrong(Exception):
    """One sentence: which object, where in it, and what."""


def check(document):
    """Raises Wrong unless `document` is a valid object of a known kind."""
    name = f"{document.get('kind')} {document['metadata'].get('name')}"
    schema = _CUSTOM.get(f"{document['apiVersion']}/{document['kind']}")
    try:
        if schema is None:
            _check_builtin(document)
            return
        jsonschema.Draft202012Validator(schema).validate(document["spec"])
        unknown = (set(document) - {"apiVersion", "kind", "metadata", "spec"} |
                   set(document["metadata"]) - _METADATA)
        if unknown:
            raise Wrong(f"{name}: unknown: {sorted(unknown)}")
        for inside in _objects_inside(document):
            _check_builtin(inside)
    except kubernetes_validate.SchemaNotFoundError as error:
        raise Wrong(f"{name}: unknown kind {document['apiVersion']}") from error
    except jsonschema.ValidationError as error:
        where = "/".join(str(step) for step in error.absolute_path)
        raise Wrong(f"{name}: {where}: {error.message[:300]}") from error


def _check_builtin(document):
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)


def _objects_inside(document):
    """The Jobs and pods that an operator makes of a custom resource."""
    spec = document["spec"]
    for job in spec.get("replicatedJobs", []):
        yield {"apiVersion": "batch/v1", "kind": "Job",
               "metadata": job["template"].get("metadata", {}),
               "spec": job["template"]["spec"]}
    for replica in spec.get("tfReplicaSpecs", {}).values():
        yield {"apiVersion": "v1", "kind": "Pod",
               "metadata": replica["template"].get("metadata", {}),
               "spec": replica["template"]["spec"]}
