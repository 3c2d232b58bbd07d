"""A Lease of Kubernetes decides which process is the chief."""

import os
import time
import unittest

from tests.cluster import api_server
from tests.cluster import candidates


class LeaseTest(candidates.CandidatesTest):

    def start_server(self, **options):
        server = api_server.ApiServer(**options)
        self.addCleanup(server.kill)
        return server

    def test_Promise5_a_killed_chief_is_followed_by_the_one_that_stands_by(self):
        server = self.start_server()
        self.check_a_killed_chief_is_followed(server)
        lease = server.leases["tiny"]
        self.assertEqual((lease["apiVersion"], lease["kind"]),
                         ("coordination.k8s.io/v1", "Lease"))
        self.assertEqual(lease["metadata"]["namespace"], api_server.NAMESPACE)
        # Two chiefs, the second of which gave it back at the end.
        self.assertEqual(lease["spec"]["leaseTransitions"], 1)
        self.assertEqual(lease["spec"]["leaseDurationSeconds"], 4)
        self.assertEqual(lease["spec"]["holderIdentity"], "")

    def test_a_chief_that_is_told_to_end_resigns_before_its_lease_is_over(self):
        self.check_one_that_resigns_is_followed(self.start_server())

    def test_a_paused_chief_that_was_followed_ends_and_stands_by_again(self):
        self.check_a_paused_chief_ends_and_stands_by(self.start_server())

    def test_training_goes_on_while_the_api_server_is_away(self):
        server = self.start_server()
        first, second, others = self.start_all(server, *candidates.SHORT_LEASE)
        server.kill()
        first.wait_for(
            "the API server is away; training goes on with this chief")
        self.assertTrue(
            any(f"the API server at {server.address}" in whom and
                "training goes on with this chief" in whom
                for whom in self.waits_of_chief()))
        time.sleep(5)  # More than the lease.
        server.start()
        first.wait_for("the API server is back")
        others["first"] = first
        self.assertEqual(self.check_all_end(others),
                         candidates.EPOCHS * candidates.STEPS_AN_EPOCH)
        self.assertEqual(first.output.count("elected the chief"), 1)
        self.assertEqual(second.wait(), 0, second.output)

    def test_a_token_that_is_replaced_is_used(self):
        server = self.start_server()
        first = self.start("worker-0", server, *candidates.SHORT_LEASE)
        first.wait_for("elected the chief")
        others = self.start_others(server, *candidates.SHORT_LEASE)
        others["worker-1"].wait_for("first push of generation")
        server.use_token("second")
        asked = server.requests
        others["first"] = first
        self.assertEqual(self.check_all_end(others),
                         candidates.EPOCHS * candidates.STEPS_AN_EPOCH)
        self.assertGreater(server.requests, asked)
        self.assertEqual(server.leases["tiny"]["spec"]["holderIdentity"], "")

    def test_a_candidate_with_another_run_directory_is_refused(self):
        self.check_a_candidate_elsewhere_is_refused(
            self.start_server(), *candidates.SHORT_LEASE)

    def test_a_server_that_is_not_there_is_waited_for_by_its_name(self):
        server = self.start_server()
        server.kill()
        run = self.start("worker-0", server, "--start_timeout_ms=2000")
        self.assertEqual(run.wait(), 138, run.output)
        self.assertIn("waiting for the API server, which elects the chief",
                      run.output)
        self.assertIn("nobody can be elected the chief: the API server at "
                      f"{server.address}: ", run.output)

    def test_a_server_of_another_authority_is_not_trusted(self):
        server = self.start_server()
        other = self.start_server()
        os.replace(os.path.join(other.directory, "ca.crt"),
                   os.path.join(server.directory, "ca.crt"))
        run = self.start("worker-0", server, "--start_timeout_ms=2000")
        self.assertEqual(run.wait(), 138, run.output)
        self.assertIn("certificate", run.output)
        self.assertEqual(server.requests, 0)

    def test_rights_that_are_missing_are_named(self):
        server = self.start_server(allowed=("get", "update"))
        run = self.start("worker-0", server)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(
            "does not let this pod create the Lease tiny of namespace research: "
            "bind its service account to a Role with the verbs get, create and "
            "update on leases of coordination.k8s.io", run.output)

    def test_outside_of_a_pod_there_is_no_lease(self):
        server = self.start_server()
        os.remove(os.path.join(server.directory, "token"))
        run = self.start("worker-1", server)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("automountServiceAccountToken: true", run.output)
        server.environment = {"KUBERNETES_SERVICE_HOST": ""}
        run = self.start("worker-0", server)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("a Lease needs a pod of Kubernetes", run.output)

    def test_a_name_that_is_none_is_refused(self):
        server = self.start_server()
        server.flags = ["--chief_election=kubernetes://a/B"]
        run = self.start("worker-0", server)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("chief_election: 'B' is not the name of a Lease",
                      run.output)


if __name__ == "__main__":
    unittest.main()
