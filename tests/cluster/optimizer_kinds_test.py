"""Tables by one optimizer and all else by another, in real processes."""

import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd
from tests.cluster.keyed_job import KEYS, TABLE, KeyedCase, by_key, job

ADAGRAD = {"adagrad": {"row_wise": True}, "learning_rate": 0.1}
ADAM = {"adam": {}, "learning_rate": 0.01}
PROCESSES = ("--workers=2", "--servers=2")


def both(of_table=None, frozen="", **settings):
    """The table by Adagrad, and what is dense by Adam."""
    settings = job(staleness="sync", **settings)
    settings["optimizer"] = {
        **ADAM, "groups": [{"variables": TABLE, **(of_table or ADAGRAD)}]}
    if frozen:
        settings["optimizer"]["rate_factors"] = [
            {"variables": frozen, "factor": 0}]
    return settings


def one(optimizer, frozen):
    settings = job(staleness="sync")
    settings["optimizer"] = {
        **optimizer, "rate_factors": [{"variables": frozen, "factor": 0}]}
    return settings


class OptimizerKindsTest(KeyedCase):

    def test_each_variable_has_the_bits_and_slots_of_its_kind(self):
        # Where the others stay as they are, gradients are those of a job of one
        # kind.
        for optimizer, mine, frozen in ((ADAGRAD, TABLE, "dense_1/*"),
                                        (ADAM, "dense_1/", TABLE)):
            expected = by_key(self.train(one(optimizer, frozen), "local",
                                         *PROCESSES).tensors())
            found = by_key(self.train(both(frozen=frozen), "local",
                                      *PROCESSES).tensors())
            self.assert_same(
                *({name: values for name, values in tensors.items()
                   if name.startswith(mine)} for tensors in (found, expected)),
                f"where {frozen} stays")
            self.assertIn(
                TABLE + "/slot:row_accumulator" if mine == TABLE
                else "dense_1/kernel/slot:variance", found)

    def test_no_number_of_servers_and_no_strategy_changes_a_bit(self):
        expected = self.train(both(), "local", *PROCESSES).tensors()
        self.assertEqual(
            {name for name in expected if "/slot:" in name},
            {f"{TABLE}/slot:{slot}" for slot in
             ("key", "used", "row_accumulator")} |
            {f"dense_1/{variable}/slot:{slot}"
             for variable in ("kernel", "bias")
             for slot in ("momentum", "variance")})
        servers = self.train(both(), "local", "--workers=2", "--servers=3")
        self.assert_same(by_key(servers.tensors()), by_key(expected),
                         "of three servers")
        alone = both()
        alone.update(strategy="one_device", accumulate=2)
        self.assert_same(by_key(self.train(alone, "run").tensors()),
                         by_key(expected), "on one device")

    def test_copies_have_the_bits_of_servers(self):
        # Of a table that is no other variable than the rest.
        settings = both({"adagrad": {}, "learning_rate": 0.1}, keyed=False,
                        policy={"sparse": False})
        expected = self.train(settings, "local", *PROCESSES).tensors()
        self.assertIn(TABLE + "/slot:accumulator", expected)
        self.assertIn("dense_1/kernel/slot:variance", expected)
        for command in (["run", "--strategy=mirrored", "--replicas=2"],
                        ["run", "--strategy=central_storage", "--replicas=2"],
                        ["local", "--strategy=multi_worker_mirrored",
                         "--workers=2"]):
            self.assert_same(self.train(settings, *command).tensors(), expected,
                             f"of {command}")

    def test_a_run_goes_on_with_both_and_not_with_another_kind(self):
        alone = by_key(self.train(both(epochs=2), "local",
                                  *PROCESSES).tensors())
        run = self.train(both(), "local", *PROCESSES)
        for of_table, said in (
                ({"learning_rate": 0.1},
                 "optimizer.groups[0].adagrad.row_wise is not there, was true"),
                ({**ADAGRAD, "adagrad": {"row_wise": False}},
                 "optimizer.groups[0].adagrad.row_wise is false, was true")):
            other = self.resume(run, both(of_table, epochs=2), *PROCESSES)
            self.assertEqual(other.wait(), 2, other.output)
            self.assertIn(said, other.output)
        # In a table of another capacity, and on servers of another number.
        again = self.resume(run, both(epochs=2, capacity=2 * KEYS),
                            "--workers=2", "--servers=3")
        self.assertEqual(again.wait(), 0, again.output)
        self.assert_same(by_key(again.tensors()), alone, "resumed")

    def test_a_server_that_is_killed_changes_no_bit(self):
        settings = dict(examples=16000, lease_ms=5000, heartbeat_ms=100,
                        checkpoint={"every_steps": 100})
        undisturbed = self.train(both(**settings), "local",
                                 *PROCESSES).tensors()
        run = self.start(both(**settings), "local", *PROCESSES)
        run.wait_for("checkpoint committed at step")
        run.kill_task("ps-1")
        self.assertEqual(run.wait(), 0, run.output)
        self.assert_same(by_key(run.tensors()), by_key(undisturbed), "killed")

    def test_a_checkpoint_is_inspected_verified_and_exported(self):
        run = self.train(both(examples=160), "local", *PROCESSES)
        for command in ("verify", "inspect"):
            subprocess.check_output([paramd.BINARY, "checkpoint", command,
                                     run.run_directory()])
        target = os.path.join(tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]),
                              "exported")
        subprocess.check_output([paramd.BINARY, "checkpoint", "export",
                                 run.run_directory(), "--slots", "--to",
                                 target])
        trained = run.tensors()
        exported = paramd.tensors(target)
        for name in (f"{TABLE}/slot:row_accumulator",
                     "dense_1/kernel/slot:momentum"):
            self.assertTrue(exported[name] == trained[name], name)
        self.assertNotIn(f"{TABLE}/slot:momentum", exported)

    def test_what_makes_no_sense_ends_the_start(self):
        for of_table, said in (
                ({"adagrad": {}, "sgd": {}},
                 "optimizer.groups[0].adagrad: conflicts with 'sgd'; keep one"),
                ({"adagrad": {}, "beta1": 0.5},
                 "optimizer.groups[0].beta1: adagrad has no beta1"),
                ({"adagrads": {}}, "optimizer.groups[0].adagrads")):
            run = self.start(both(of_table), "run")
            self.assertEqual(run.wait(), 2, run.output)
            self.assertIn(said, run.output)


if __name__ == "__main__":
    unittest.main()
