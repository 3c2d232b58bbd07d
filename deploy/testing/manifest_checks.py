"""What holds of every job that deploy/ renders, whoever rendered it."""

import copy
import json
import re

from deploy.testing import pods

# Volumes that the profile "restricted" allows, as far as they are used.
ALLOWED_VOLUMES = {"name", "configMap", "persistentVolumeClaim", "emptyDir",
                   "secret", "projected"}
# After any other code a task is started again.
FINAL_CODES = [1, 2]


def of_kind(objects, kind):
    return [o for o in objects if o["kind"] == kind]


def selects(selector, labels):
    for wanted in selector.get("matchExpressions", []):
        is_in = labels.get(wanted["key"]) in wanted["values"]
        if is_in != {"In": True, "NotIn": False}[wanted["operator"]]:
            return False
    return selector["matchLabels"].items() <= labels.items()


def policy_of(objects, pod):
    """The one NetworkPolicy that selects the pod."""
    (policy,) = [o["spec"] for o in of_kind(objects, "NetworkPolicy")
                 if selects(o["spec"]["podSelector"], pod.labels)]
    return policy


def lets_in(objects, caller, pod, port):
    """Whether policies let one pod of the job call another one."""
    (called, calling) = (policy_of(objects, pod), policy_of(objects, caller))

    def named(rules, direction, other):
        return any(
            {"protocol": "TCP", "port": port} in rule["ports"] and
            any("namespaceSelector" not in peer and
                selects(peer["podSelector"], other.labels)
                for peer in rule.get(direction, []))
            for rule in rules)

    return (named(called["ingress"], "from", caller) and
            named(calling["egress"], "to", pod))


def worker_index(pod):
    """Which worker a pod is, the chief included, or None."""
    index = int(pod.host_name.rsplit("-", 1)[1])
    return {"chief": 0, "worker": index + 1}.get(pod.role)


def addresses(pod):
    """Host and port of every task that the container is told of."""
    if "TF_CONFIG" in pod.environment:
        cluster = json.loads(pod.environment["TF_CONFIG"])["cluster"]
        return {address for tasks in cluster.values() for address in tasks}
    found = set()
    for tasks in pod.environment["PARAMD_CLUSTER"].split():
        for address in tasks.split("=", 1)[1].split(","):
            ranges = re.search(r"\{(\d+)\.\.(\d+)\}", address)
            if not ranges:
                found.add(address)
                continue
            for index in range(int(ranges[1]), int(ranges[2]) + 1):
                found.add(address.replace(ranges[0], str(index)))
    return found


def uses_tls(pod):
    return any(a.startswith("--tls_dir=") for a in pod.container["args"])


def job_of(objects):
    """The job file."""
    return json.loads(pods.config_map(objects, "train-job")["job.json"])


def check_election(test, objects):
    """That each pod of a job with an election can ask the API server, and no more."""
    (account,) = of_kind(objects, "ServiceAccount")
    (role,) = of_kind(objects, "Role")
    (binding,) = of_kind(objects, "RoleBinding")
    test.assertEqual(binding["roleRef"]["name"], role["metadata"]["name"])
    test.assertEqual([subject["name"] for subject in binding["subjects"]],
                     [account["metadata"]["name"]])
    test.assertEqual(
        [(rule["apiGroups"], rule["resources"], rule.get("resourceNames"),
          rule["verbs"]) for rule in role["rules"]],
        [(["coordination.k8s.io"], ["leases"], ["train"], ["get", "update"]),
         (["coordination.k8s.io"], ["leases"], None, ["create"])])
    (policy,) = of_kind(objects, "NetworkPolicy")
    test.assertIn({"ports": [{"protocol": "TCP", "port": 443},
                             {"protocol": "TCP", "port": 6443}]},
                  policy["spec"]["egress"])
    for pod in pods.pods_of(objects):
        test.assertEqual(pod.spec["serviceAccountName"],
                         account["metadata"]["name"])
        test.assertIs(pod.spec["automountServiceAccountToken"], False)
        test.assertEqual(pod.environment["PARAMD_CHIEF_ELECTION"],
                         "kubernetes://train")
        directory = pod.environment["PARAMD_CHIEF_ELECTION_TLS_DIR"]
        (mount,) = [m for m in pod.container["volumeMounts"]
                    if m["mountPath"] == directory]
        (volume,) = [v for v in pod.spec["volumes"]
                     if v["name"] == mount["name"]]
        token, authority, name = volume["projected"]["sources"]
        test.assertEqual(token["serviceAccountToken"]["path"], "token")
        test.assertEqual(authority["configMap"]["items"],
                         [{"key": "ca.crt", "path": "ca.crt"}])
        test.assertEqual(name["downwardAPI"]["items"],
                         [{"path": "namespace",
                           "fieldRef": {"fieldPath": "metadata.namespace"}}])


def check_candidates(test, objects):
    """That the pods of the chief's task are one task at addresses of their own."""
    chiefs = [pod for pod in pods.pods_of(objects) if pod.role == "chief"]
    test.assertEqual(len(chiefs), 2)
    for pod in chiefs:
        test.assertEqual(pod.container["args"],
                         ["run", "--job=/etc/paramd/job.json",
                          "--task_type=chief", "--insecure", "--task_index=0"])
        test.assertEqual(pod.environment["POD_IP"], "status.podIP")
        test.assertEqual(pod.environment["PARAMD_CLUSTER"].split(),
                         ["chief=$(POD_IP):7077",
                          "ps=train-ps-{0..1}.train:7077",
                          "worker=train-worker-{0..0}.train:7077"])
        names = [entry["name"] for entry in pod.container["env"]]
        test.assertLess(names.index("POD_IP"), names.index("PARAMD_CLUSTER"))
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            test.assertNotIn(probe, pod.container)
        (term,) = pod.spec["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"]
        test.assertTrue(selects(term["podAffinityTerm"]["labelSelector"],
                                pod.labels))


class ManifestChecks:
    """Tests of rendered jobs; mix it into a unittest.TestCase.

    A subclass sets `jobs`, from name to objects. Those whose name has "stages" in it have
    a stage for each worker.
    """

    jobs = {}
    ROLES = ["ps", "ps", "worker", "chief"]
    ROLES_WITH_STAGES = ["ps", "ps", "stage", "stage", "worker", "chief"]

    def for_each_pod(self):
        for name, objects in self.jobs.items():
            for pod in pods.pods_of(objects):
                with self.subTest(job=name, pod=pod.host_name):
                    yield objects, pod

    def test_there_are_pods_of_every_role(self):
        for name, objects in self.jobs.items():
            self.assertEqual(
                [pod.role for pod in pods.pods_of(objects)],
                self.ROLES_WITH_STAGES if "stages" in name else self.ROLES,
                name)

    def test_names_have_at_most_63_characters(self):
        for objects, pod in self.for_each_pod():
            names = [o["metadata"]["name"] for o in objects]
            for label in names + [pod.name, *pod.dns_name.split(".")]:
                self.assertRegex(label, "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")

    def test_the_cluster_is_exactly_the_pods(self):
        for name, objects in self.jobs.items():
            all_pods = pods.pods_of(objects)
            for pod in all_pods:
                (port,) = [p["containerPort"] for p in pod.container["ports"]
                           if p["name"] in ("grpc", "tfjob-port")]
                self.assertEqual(
                    addresses(pod),
                    {f"{other.dns_name}:{port}" for other in all_pods}, name)

    def test_ports_are_those_that_the_others_know(self):
        for objects, pod in self.for_each_pod():
            ports = {p["name"]: p["containerPort"]
                     for p in pod.container["ports"]}
            grpc = ports.get("grpc") or ports["tfjob-port"]
            # The kubelet speaks no TLS.
            asked = ports["health"] if uses_tls(pod) else grpc
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertEqual(pod.container[probe]["grpc"]["port"], asked)
            self.assertEqual("health" in ports, uses_tls(pod))
            job = job_of(objects)
            self.assertEqual(job["metrics_address"],
                             f"[::]:{ports['metrics']}")
            policy = policy_of(objects, pod)
            open_ports = {port["port"] for rule in policy["ingress"]
                          for port in rule["ports"]}
            self.assertEqual(open_ports, {grpc, ports["metrics"]})
            self.assertEqual(
                {(port["protocol"], port["port"])
                 for rule in policy["egress"] if "to" not in rule
                 for port in rule["ports"]},
                {(protocol, port) for protocol in ("UDP", "TCP")
                 for port in (53, 5353)})
            for service in of_kind(objects, "Service"):
                for port in service["spec"]["ports"]:
                    self.assertEqual(ports[port["targetPort"]], port["port"])

    def test_pods_say_whether_they_are_insecure_or_speak_tls(self):
        for _, pod in self.for_each_pod():
            arguments = pod.container["args"]
            self.assertNotEqual("--insecure" in arguments, uses_tls(pod))
            if uses_tls(pod):
                ports = {p["name"]: p["containerPort"]
                         for p in pod.container["ports"]}
                self.assertIn(f"--health_address=[::]:{ports['health']}",
                              arguments)

    def test_each_pod_has_the_files_of_its_task(self):
        seen = 0
        for objects, pod in self.for_each_pod():
            if not uses_tls(pod):
                continue
            seen += 1
            (place,) = [a.split("=")[1] for a in pod.container["args"]
                        if a.startswith("--tls_dir=")]
            (mount,) = [m for m in pod.container["volumeMounts"]
                        if m["mountPath"] == place]
            (volume,) = [v for v in pod.spec["volumes"]
                         if v["name"] == mount["name"]]
            files = {item["path"]: (source["secret"]["name"], item["key"])
                     for source in volume["projected"]["sources"]
                     for item in source["secret"]["items"]}
            index = int(pod.host_name.rsplit("-", 1)[1])
            task = (f"{pod.role}-{index}" if worker_index(pod) is None
                    else f"worker-{worker_index(pod)}")
            made = of_kind(objects, "Certificate")
            for key in ("ca.crt", "tls.crt", "tls.key"):
                self.assertEqual(files[f"{task}/{key}"],
                                 (f"train-tls-{task}", key))
            if made:
                (certificate,) = [c["spec"] for c in made if
                                  c["spec"]["secretName"] == f"train-tls-{task}"]
                job = job_of(objects)["name"]
                self.assertEqual(
                    certificate["uris"],
                    [f"spiffe://paramd/{job}/{task.replace('-', '/')}"])
        if "overlays/tls" in self.jobs:
            self.assertGreater(seen, 0)

    def test_selectors_match_labels(self):
        for objects, pod in self.for_each_pod():
            for service in of_kind(objects, "Service"):
                self.assertLessEqual(service["spec"]["selector"].items(),
                                     pod.labels.items())
            for monitor in of_kind(objects, "PodMonitor"):
                self.assertTrue(
                    selects(monitor["spec"]["selector"], pod.labels))
                self.assertIn(monitor["spec"]["podMetricsEndpoints"][0]["port"],
                              [p["name"] for p in pod.container["ports"]])
            for spread in pod.spec.get("topologySpreadConstraints", []):
                self.assertTrue(selects(spread["labelSelector"], pod.labels))

    def test_pods_of_the_job_alone_call_each_other_and_a_stage_its_worker(self):
        for name, objects in self.jobs.items():
            everyone = pods.pods_of(objects)
            workers = sum(worker_index(pod) is not None for pod in everyone)
            stages = sum(pod.role == "stage" for pod in everyone)
            for caller in everyone:
                for pod in everyone:
                    (port,) = [p["containerPort"] for p in
                               pod.container["ports"]
                               if p["name"] in ("grpc", "tfjob-port")]
                    may = caller.role != "stage"
                    if pod.role == "stage":
                        index = int(pod.host_name.rsplit("-", 1)[1])
                        may = (worker_index(caller) ==
                               index // (stages // workers))
                    self.assertEqual(
                        lets_in(objects, caller, pod, port), may,
                        f"{name}: {caller.host_name} calls {pod.host_name}")
            stranger = copy.copy(everyone[0])
            stranger.labels = {"app.kubernetes.io/component": "worker"}
            for pod in everyone:
                for rule in policy_of(objects, pod)["ingress"]:
                    for peer in rule["from"]:
                        self.assertFalse(selects(peer["podSelector"],
                                                 stranger.labels))

    def test_budgets_are_of_the_servers_and_stages_and_let_one_go(self):
        for name, objects in self.jobs.items():
            roles = []
            for budget in of_kind(objects, "PodDisruptionBudget"):
                chosen = [pod for pod in pods.pods_of(objects)
                          if selects(budget["spec"]["selector"], pod.labels)]
                (role,) = {pod.role for pod in chosen}
                roles.append(role)
                self.assertEqual(budget["spec"]["minAvailable"],
                                 len(chosen) - 1)
            self.assertEqual(
                sorted(roles),
                ["ps", "stage"] if "stages" in name else ["ps"], name)

    def test_pods_run_on_nodes_that_the_image_is_built_for(self):
        for _, pod in self.for_each_pod():
            self.assertEqual(pod.spec["nodeSelector"],
                             {"kubernetes.io/arch": "amd64"})

    def test_servers_and_stages_are_spread_over_nodes(self):
        for _, pod in self.for_each_pod():
            keys = [spread["topologyKey"] for spread in
                    pod.spec.get("topologySpreadConstraints", [])]
            self.assertEqual(
                keys, ["kubernetes.io/hostname"]
                if pod.role in ("ps", "stage") else [])

    def test_names_lead_to_pods_that_are_not_ready(self):
        for objects in self.jobs.values():
            for service in of_kind(objects, "Service"):
                self.assertEqual(service["spec"]["clusterIP"], "None")
                self.assertIs(service["spec"]["publishNotReadyAddresses"], True)
            for job_set in of_kind(objects, "JobSet"):
                network = job_set["spec"]["network"]
                self.assertIs(network["publishNotReadyAddresses"], True)

    def test_no_pod_has_a_privilege(self):
        for _, pod in self.for_each_pod():
            context = pod.spec["securityContext"]
            self.assertIs(context["runAsNonRoot"], True)
            self.assertGreater(context["runAsUser"], 0)
            self.assertEqual(context["seccompProfile"],
                             {"type": "RuntimeDefault"})
            self.assertIs(pod.spec["automountServiceAccountToken"], False)
            for key in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(key, pod.spec)
            inside = pod.container["securityContext"]
            self.assertIs(inside["allowPrivilegeEscalation"], False)
            self.assertIs(inside["privileged"], False)
            self.assertIs(inside["readOnlyRootFilesystem"], True)
            self.assertEqual(inside["capabilities"], {"drop": ["ALL"]})
            for port in pod.container["ports"]:
                self.assertNotIn("hostPort", port)
            for volume in pod.spec["volumes"]:
                self.assertLessEqual(set(volume), ALLOWED_VOLUMES)

    def test_what_is_mounted_exists(self):
        for objects, pod in self.for_each_pod():
            volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
            claims = [o["metadata"]["name"]
                      for o in of_kind(objects, "PersistentVolumeClaim")]
            for mount in pod.container["volumeMounts"]:
                volume = volumes[mount["name"]]
                if "configMap" in volume:
                    pods.config_map(objects, volume["configMap"]["name"])
                elif "projected" in volume:
                    self.assertTrue(uses_tls(pod))
                else:
                    self.assertIn(volume["persistentVolumeClaim"]["claimName"],
                                  claims)
            for claim in of_kind(objects, "PersistentVolumeClaim"):
                wanted = claim["spec"].get("volumeName")
                if wanted:
                    self.assertIn(wanted,
                                  [o["metadata"]["name"] for o in
                                   of_kind(objects, "PersistentVolume")])

    def test_what_is_written_lies_on_the_claim(self):
        for objects, pod in self.for_each_pod():
            job = job_of(objects)
            (mount,) = [m["mountPath"] for m in pod.container["volumeMounts"]
                        if not m.get("readOnly")]
            for path in (job["run_dir"], job["input"]["directory"]):
                self.assertTrue(path.startswith(mount + "/"), path)

    def test_memory_has_a_limit_which_is_what_is_asked_for(self):
        for _, pod in self.for_each_pod():
            resources = pod.container["resources"]
            self.assertEqual(resources["limits"]["memory"],
                             resources["requests"]["memory"])

    def test_a_drain_ends_within_the_grace(self):
        for objects, pod in self.for_each_pod():
            drain = job_of(objects).get("drain_timeout_ms", 25000)
            self.assertGreater(pod.spec["terminationGracePeriodSeconds"] * 1000,
                               drain + 5000)

    def test_exit_codes_that_are_final_end_the_job(self):
        for name, objects in self.jobs.items():
            for job in of_kind(objects, "TFJob"):
                # 1 to 127 are final there, so none of the others may be below.
                for replica in job["spec"]["tfReplicaSpecs"].values():
                    self.assertEqual(replica["restartPolicy"], "ExitCode")
            for pod in pods.pods_of(objects):
                for rule in pod.failure_policy:
                    codes = rule.get("onExitCodes", {}).get("values")
                    final = rule["action"] == "FailJob"
                    self.assertEqual(codes, FINAL_CODES if final else None)
                self.assertEqual(pod.spec.get("restartPolicy", "Never"),
                                 "Never")

    def test_the_job_set_ends_with_its_chief_and_for_what_is_final(self):
        job_sets = [job_set for objects in self.jobs.values()
                    for job_set in of_kind(objects, "JobSet")]
        self.assertTrue(job_sets)
        for job_set in job_sets:
            names = [job["name"] for job in job_set["spec"]["replicatedJobs"]]
            self.assertIn("chief", names)
            self.assertEqual(
                job_set["spec"]["successPolicy"],
                {"operator": "All", "targetReplicatedJobs": ["chief"]})
            (rule,) = job_set["spec"]["failurePolicy"]["rules"]
            self.assertEqual(rule["action"], "FailJobSet")
            self.assertEqual(rule["onJobFailureReasons"], ["PodFailurePolicy"])
