"""Workers that each keep a copy: they are killed, and the weights stay the same."""

import json
import os
import signal
import struct
import subprocess
import tempfile
import unittest
from unittest import mock

from tests.cluster import paramd

# The same program, whose device is another one.
SLEEPER = os.path.abspath("bench/overhead/sleeping_paramd")

# A step takes some milliseconds, so that a kill meets the run in the middle.
JOB = {
    "name": "copies",
    "input": {"format": "idx", "directory": paramd.DATA,
              "train_images": "t10k-images-idx3-ubyte.gz",
              "train_labels": "t10k-labels-idx1-ubyte.gz"},
    "model": {"layers": ["flatten", {"dense": 64}, "relu", {"dense": 10}],
              "loss": "softmax_cross_entropy"},
    "optimizer": {"adam": {}, "learning_rate": 0.001, "schedule": "cosine",
                  "decay_steps": 300},
    "batch_per_replica": 60,
    "epochs": 2,
    "strategy": "multi_worker_mirrored",
    "all_reduce": {"check_every_steps": 10, "bucket_bytes": 100000},
    "checkpoint": {"every_steps": 40},
}


def setUpModule():
    paramd.need_data()


class Workers:
    """The processes of a cluster of workers alone, started one by one."""

    def __init__(self, count, job):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.run_dir = os.path.join(self.directory, "run")
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.addresses = paramd.draw_addresses(count)

    def start(self, worker, *flags, job=None, run_dir=True):
        tf_config = {"cluster": {"worker": self.addresses},
                     "task": {"type": "worker", "index": worker}}
        own = ["--run_dir", self.run_dir] if run_dir else []
        return paramd.Run("run", "--job", job or self.job, *own, *flags,
                          directory=self.directory,
                          environment={"TF_CONFIG": json.dumps(tf_config)})

    def status(self, worker):
        reply = subprocess.run(
            [paramd.BINARY, "status", "--format=json", self.addresses[worker]],
            capture_output=True, text=True, check=True)
        processes = json.loads(reply.stdout)["processes"]
        return processes[worker]["status"]

    def tensors(self):
        return paramd.tensors(os.path.join(
            self.run_dir, "checkpoints", paramd.checkpoints(self.run_dir)[-1]))


class MultiWorkerTest(unittest.TestCase):

    def start(self, workers, worker, *flags, **options):
        run = workers.start(worker, *flags, **options)
        self.addCleanup(run.kill)
        return run

    def undisturbed(self, job, replicas):
        """The weights of as many replicas in one process."""
        workers = Workers(1, {**job, "strategy": "mirrored",
                              "replicas": replicas})
        run = paramd.Run("run", "--job", workers.job, "--run_dir",
                         workers.run_dir)
        self.assertEqual(run.wait(), 0, run.output)
        return workers.tensors()

    def assert_same(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, values in expected.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(found[name] == values, name)

    def test_two_workers_have_the_bits_of_two_replicas(self):
        workers = Workers(2, JOB)
        chief = self.start(workers, 0)
        # Only the chief needs a directory.
        other = self.start(workers, 1, run_dir=False)
        self.assertEqual(chief.wait(), 0, chief.output)
        self.assertEqual(other.wait(), 0, other.output)
        self.assert_same(workers.tensors(), self.undisturbed(JOB, 2))
        self.assertEqual(sorted(os.listdir(workers.run_dir)),
                         ["checkpoints", "committed", "configuration",
                          "result.json", "summaries"])

    def test_a_worker_that_was_killed_takes_the_same_step_up(self):
        job = {**JOB, "epochs": 12}
        for victim in (1, 0):
            workers = Workers(2, job)
            runs = [self.start(workers, 0), self.start(workers, 1)]
            runs[0].wait_for("evaluation after epoch 1")
            runs[victim].kill()
            runs[1 - victim].wait_for(
                f'missing="worker-{victim} at {workers.addresses[victim]}')
            if victim == 1:
                waits = workers.status(0)["waits"]
                self.assertTrue(any("worker-1 at" in wait["whom"]
                                    for wait in waits), waits)
            runs[victim] = self.start(workers, victim)
            for run in runs:
                self.assertEqual(run.wait(), 0, run.output)
            self.assert_same(workers.tensors(), self.undisturbed(job, 2))

    def test_without_the_lost_worker_they_keep_what_they_have_and_end_with_138(
            self):
        workers = Workers(2, {
            **JOB, "epochs": 100, "checkpoint": {"every_steps": 100000},
            "all_reduce": {"rejoin_timeout_ms": 5000}})
        chief = self.start(workers, 0)
        other = self.start(workers, 1)
        chief.wait_for("evaluation after epoch 1")
        other.kill()
        self.assertEqual(chief.wait(), 138, chief.output)
        self.assertIn("worker-1 did not come within 5s", chief.output)
        newest = paramd.checkpoints(workers.run_dir)[-1]
        self.assertGreaterEqual(int(newest.rpartition("-")[2]), 84)

    def test_one_that_is_started_twice_harms_nobody(self):
        workers = Workers(2, {**JOB, "epochs": 6})
        runs = [self.start(workers, w) for w in range(2)]
        runs[0].wait_for("evaluation after epoch 1")
        again = self.start(workers, 1)
        self.assertEqual(again.wait(), 2, again.output)
        self.assertIn("Address already in use", again.output)
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)

    def test_an_evaluator_reads_the_chiefs_checkpoints(self):
        workers = Workers(2, {**JOB, "epochs": 1})
        runs = [self.start(workers, w) for w in range(2)]
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)
        task = {"type": "evaluator", "index": 0}
        cluster = {"worker": workers.addresses,
                   "evaluator": paramd.draw_addresses(1)}
        for tf_config in ({"cluster": cluster, "task": task}, {"task": task}):
            run = paramd.Run("run", "--job", workers.job, "--run_dir",
                             workers.run_dir, directory=workers.directory,
                             environment={"TF_CONFIG": json.dumps(tf_config)})
            self.assertEqual(run.wait(), 0, run.output)
        self.assertEqual(sorted(os.listdir(workers.run_dir)),
                         ["checkpoints", "committed", "configuration",
                          "evaluation.jsonl", "result.json", "summaries"])

    def test_a_chief_that_lingers_tells_who_comes_back(self):
        workers = Workers(2, {**JOB, "epochs": 1})
        runs = [self.start(workers, w, "--linger_when_finished")
                for w in range(2)]
        for run in runs:
            run.wait_for("staying until SIGTERM")
        runs[1].signal(signal.SIGTERM)
        self.assertEqual(runs[1].wait(), 0, runs[1].output)
        # It does not see the chief's run.
        late = self.start(workers, 1, run_dir=False)
        self.assertEqual(late.wait(), 0, late.output)
        self.assertIn("the chief has finished the job already", late.output)
        runs[0].signal(signal.SIGTERM)
        self.assertEqual(runs[0].wait(), 0, runs[0].output)

    def test_without_the_chief_they_end_with_138(self):
        workers = Workers(2, {**JOB, "epochs": 100, "all_reduce": {
            "rejoin_timeout_ms": 5000}})
        chief = self.start(workers, 0)
        other = self.start(workers, 1)
        chief.wait_for("evaluation after epoch 1")
        chief.kill()
        self.assertEqual(other.wait(), 138, other.output)
        self.assertIn("the chief, worker-0 at", other.output)

    def test_fewer_workers_go_on_to_the_same_weights(self):
        job = {**JOB, "epochs": 3, "batch_per_replica": 40, "all_reduce": {
            "rejoin_timeout_ms": 5000, "fewest_workers": 2,
            "check_every_steps": 10}}
        workers = Workers(3, job)
        runs = [self.start(workers, w) for w in range(3)]
        runs[0].wait_for("evaluation after epoch 1")
        runs[1].kill()
        for w in (0, 2):
            self.assertEqual(runs[w].wait(), 0, runs[w].output)
        self.assert_same(workers.tensors(), self.undisturbed(job, 3))

    def test_it_goes_on_from_the_chiefs_checkpoint_after_all_were_stopped(self):
        job = {**JOB, "epochs": 9}
        workers = Workers(2, job)
        runs = [self.start(workers, w) for w in range(2)]
        runs[0].wait_for("evaluation after epoch 1")
        for run in runs:
            run.signal(signal.SIGTERM)
        for run in runs:
            self.assertEqual(run.wait(), 143, run.output)
        runs = [self.start(workers, w) for w in range(2)]
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)
        self.assertIn("going on from checkpoint", runs[0].output)
        self.assert_same(workers.tensors(), self.undisturbed(job, 2))

    def test_a_job_that_is_finished_is_finished_for_all(self):
        workers = Workers(2, {**JOB, "epochs": 1})
        for _ in range(2):
            runs = [self.start(workers, w) for w in range(2)]
            for run in runs:
                self.assertEqual(run.wait(), 0, run.output)

    def test_a_worker_that_is_started_behind_the_end_sees_it(self):
        job = {**JOB, "epochs": 1, "all_reduce": {"rejoin_timeout_ms": 5000}}
        workers = Workers(2, job)
        runs = [self.start(workers, w) for w in range(2)]
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)
        late = self.start(workers, 1)
        self.assertEqual(late.wait(), 0, late.output)
        self.assertIn("the chief has finished the job already", late.output)
        # Where it does not see the run, or one that is to go on, it waits.
        for flags, run_dir in (([], False), (["--epochs=2"], True)):
            run = self.start(workers, 1, *flags, run_dir=run_dir)
            self.assertEqual(run.wait(), 138, run.output)
            self.assertIn("the chief, worker-0 at", run.output)

    def test_a_worker_of_another_job_is_refused_in_one_sentence(self):
        workers = Workers(2, JOB)
        chief = self.start(workers, 0)
        other_job = os.path.join(workers.directory, "other.json")
        for change, sentence in [
                ({"name": "others"}, "job_name differs: worker-1 has 'others', "
                                     "worker-0 has 'copies'"),
                ({"seed": 5}, "seed differs: worker-1 has '5'"),
                ({"model": {"layers": ["flatten", {"dense": 10}],
                            "loss": "softmax_cross_entropy"}}, "differs")]:
            with open(other_job, "w", encoding="utf-8") as file:
                json.dump({**JOB, **change}, file)
            other = self.start(workers, 1, job=other_job)
            self.assertEqual(other.wait(), 2, other.output)
            self.assertIn(sentence, other.output)
        chief.kill()

    def test_a_worker_that_is_told_of_other_workers_is_refused(self):
        workers = Workers(2, JOB)
        chief = self.start(workers, 0)
        workers.addresses = [*workers.addresses, *paramd.draw_addresses(1)]
        other = self.start(workers, 1)
        self.assertEqual(other.wait(), 2, other.output)
        self.assertIn("number of workers differs: worker-1 has '3', worker-0 "
                      "has '2'", other.output)
        chief.kill()

    def test_a_run_goes_on_with_more_workers_and_with_fewer(self):
        for job in ({**JOB, "epochs": 1},
                    {**JOB, "epochs": 1, "global_batch": 120}):
            if "global_batch" in job:
                del job["batch_per_replica"]
            workers = Workers(1, job)
            for epochs, count in enumerate((2, 3, 1), start=1):
                run = paramd.Run("local", "--job", workers.job, "--run_dir",
                                 workers.run_dir, f"--workers={count}",
                                 f"--epochs={epochs}",
                                 *(["--resume"] if epochs > 1 else []))
                self.assertEqual(run.wait(), 0, run.output)
            self.assertIn("replicas", [change["name"] for change
                                       in self.result(workers)["changed"]])

    @staticmethod
    def result(workers):
        with open(os.path.join(workers.run_dir, "result.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def test_a_worker_with_another_device_is_refused_in_one_sentence(self):
        workers = Workers(2, JOB)
        chief = self.start(workers, 0)
        with mock.patch.object(paramd, "BINARY", SLEEPER), \
             mock.patch.dict(os.environ, {"SLEEP_MS": "1"}):
            other = self.start(workers, 1)
        self.assertEqual(other.wait(), 2, other.output)
        self.assertIn("worker-1 computes on a sleeping thread, the chief on cpu",
                      other.output)
        self.assertIn('choose strategy "parameter_server"', other.output)
        chief.kill()

    def test_a_worker_of_another_build_is_refused_in_one_sentence(self):
        workers = Workers(2, JOB)
        chief = self.start(workers, 0)
        with mock.patch.object(paramd, "BINARY",
                               self.another_build(workers.directory)):
            other = self.start(workers, 1)
        self.assertEqual(other.wait(), 2, other.output)
        self.assertIn("workers are of one build", other.output)
        self.assertIn('choose strategy "parameter_server"', other.output)
        chief.kill()

    @staticmethod
    def another_build(directory):
        """The same program, but for what the linker tells builds apart by."""
        with open(paramd.BINARY, "rb") as file:
            program = bytearray(file.read())
        # The head of the note: 4 bytes of a name, 20 of the id, its type, "GNU".
        head = struct.pack("<III", 4, 20, 3) + b"GNU\0"
        program[program.index(head) + len(head)] ^= 0xff
        path = os.path.join(directory, "another_build")
        with open(path, "wb") as file:
            file.write(program)
        os.chmod(path, 0o755)
        return path

    def test_what_does_not_fit_is_said_at_once(self):
        workers = Workers(2, JOB)
        for flags, sentence in [
                (["--cluster=ps=a:1;worker=b:1,c:1", "--task_type=worker",
                  "--task_index=0"], 'choose "parameter_server"'),
                (["--strategy=parameter_server"],
                 'choose strategy "multi_worker_mirrored"'),
                (["--strategy=mirrored", "--replicas=2"],
                 'choose "multi_worker_mirrored"'),
                (["--set=all_reduce.fewest_workers=3"],
                 "fewest_workers: is 3, but the cluster has 2 workers"),
                (["--set=checkpoint.incremental=2"],
                 "takes one checkpoint whole"),
                (["--tls_dir=certificates"],
                 "are not encrypted; give --insecure in its place")]:
            run = workers.start(0, *flags)
            self.assertEqual(run.wait(), 2, run.output)
            self.assertIn(sentence, run.output)

    def test_local_runs_workers_alone(self):
        workers = Workers(2, JOB)
        run = paramd.Run("local", "--job", workers.job, "--workers=2",
                         "--run_dir", workers.run_dir, "--kill=worker-1@epoch=2",
                         "--epochs=12")
        self.assertEqual(run.wait(), 0, run.output)
        self.assertIn("worker-1 is back", run.output)
        self.assert_same(workers.tensors(),
                         self.undisturbed({**JOB, "epochs": 12}, 2))
        run = paramd.Run("local", "--job", workers.job, "--servers=2")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("has no servers, but --servers is given", run.output)


if __name__ == "__main__":
    unittest.main()
