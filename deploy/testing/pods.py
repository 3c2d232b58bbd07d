"""The pods that controllers create from rendered manifests.

Implements what the Job, JobSet and TFJob controllers do, as far as deploy/ relies on
it: names, DNS and environment.
"""

import dataclasses
import json
import re

# With which Jobs label their pods.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
# Of TFJob's replica types.
_TASK_TYPES = {"PS": "ps", "Worker": "worker", "Chief": "chief"}


@dataclasses.dataclass
class Pod:
    """One pod. Its one container is `spec["containers"][0]`."""

    name: str
    host_name: str  # What gethostname() says inside.
    dns_name: str  # By which its peers call it; search domains are left out.
    labels: dict
    spec: dict
    environment: dict  # What Kubernetes and operators give the container.
    failure_policy: list  # Rules of the Job's podFailurePolicy; TFJob: none.

    @property
    def container(self):
        (container,) = self.spec["containers"]
        return container

    @property
    def role(self):
        return self.labels["app.kubernetes.io/component"]


def pods_of(objects):
    """All pods of a job, those of the servers first."""
    found = []
    for document in objects:
        name, spec = document["metadata"]["name"], document.get("spec", {})
        if document["kind"] == "Job":
            found += _pods_of_job(objects, name, spec)
        elif document["kind"] == "JobSet":
            for replicated in spec["replicatedJobs"]:
                for index in range(replicated.get("replicas", 1)):
                    found += _pods_of_job(
                        objects, f"{name}-{replicated['name']}-{index}",
                        replicated["template"]["spec"],
                        spec["network"].get("subdomain", name))
        elif document["kind"] == "TFJob":
            found += _pods_of_tf_job(objects, name, spec["tfReplicaSpecs"])
    order = ["ps", "stage", "worker", "chief"]
    return sorted(found, key=lambda pod: order.index(pod.role))


def config_map(objects, name):
    """The data of a ConfigMap; KeyError if it does not exist."""
    for document in objects:
        if document["kind"] == "ConfigMap" and \
                document["metadata"]["name"] == name:
            return document["data"]
    raise KeyError(f"there is no ConfigMap {name}")


def _pods_of_job(objects, name, spec, subdomain=None):
    template = spec["template"]
    subdomain = subdomain or template["spec"].get("subdomain")
    for index in range(spec["completions"]):
        environment = _environment(objects, template["spec"])
        environment["JOB_COMPLETION_INDEX"] = str(index)
        host = f"{name}-{index}"
        yield Pod(name=f"{host}-xxxxx", host_name=host,
                  dns_name=f"{host}.{subdomain}",
                  labels={**template["metadata"]["labels"],
                          COMPLETION_INDEX: str(index)},
                  spec=template["spec"], environment=environment,
                  failure_policy=spec["podFailurePolicy"]["rules"])


def _pods_of_tf_job(objects, name, replicas):
    cluster = {}
    for kind, replica in replicas.items():
        (container,) = [c for c in replica["template"]["spec"]["containers"]
                        if c["name"] == "tensorflow"]
        (port,) = [p["containerPort"] for p in container["ports"]
                   if p["name"] == "tfjob-port"]
        task_type = _TASK_TYPES[kind]
        cluster[task_type] = [
            f"{name}-{task_type}-{index}.default.svc:{port}"
            for index in range(replica.get("replicas", 1))]
    for kind, replica in replicas.items():
        for index, address in enumerate(cluster[_TASK_TYPES[kind]]):
            environment = _environment(objects, replica["template"]["spec"])
            environment["TF_CONFIG"] = json.dumps(
                {"cluster": cluster, "environment": "cloud",
                 "task": {"type": _TASK_TYPES[kind], "index": index}})
            host = f"{name}-{_TASK_TYPES[kind]}-{index}"
            yield Pod(name=host, host_name=host,
                      dns_name=re.sub(":.*", "", address),
                      labels=replica["template"]["metadata"]["labels"],
                      spec=replica["template"]["spec"], environment=environment,
                      failure_policy=[])


def _environment(objects, spec):
    """What `env` of the container says."""
    values = {}
    for entry in spec["containers"][0].get("env", []):
        if "value" in entry:
            values[entry["name"]] = entry["value"]
        elif "fieldRef" in entry["valueFrom"]:
            values[entry["name"]] = entry["valueFrom"]["fieldRef"]["fieldPath"]
        else:
            reference = entry["valueFrom"]["configMapKeyRef"]
            values[entry["name"]] = config_map(
                objects, reference["name"])[reference["key"]]
    return values
