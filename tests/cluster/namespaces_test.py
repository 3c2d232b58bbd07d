"""A replicated job on machines of their own, which fail as those do, and as
networks do.

Each process has a network namespace; cables come out, one direction is lost,
names lead elsewhere. None of it resets or ends a connection: what is noticed is
silence.

What must come out: no worker is lost, so each of the job's batches is pushed
once, and each block of the last checkpoint has taken as many pushes as there
are batches. One push lost or doubled, and the sum is another. In mode sync the
weights have the bits of one process that adds up what two workers push. Only
where the chief dies, or does not hear a worker for a lease, is there a bound:
what that worker had of the input may be computed again.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from tests.cluster import namespaces
from tests.cluster import paramd

SERVERS = 3
WORKERS = 2
TASKS = [*(f"ps-{ps}" for ps in range(SERVERS)),
         *(f"worker-{worker}" for worker in range(WORKERS))]
PLACES = 2  # Of a ps: its own server, and the backup of another one.
PORT = 2222
# A part of it for each server.
LAYERS = ["flatten", {"dense": 16}, "relu", {"dense": 10}]
BATCHES_PER_EPOCH = 8  # Of the tiny job.
# A server that says nothing for so long, or for 5 s if that is longer, is taken
# over.
LEASE = 2
# In seconds, for each thing that must happen. Nothing may wait for gRPC to find
# its connections dead, which takes 20 s, or for the kernel to, which takes a
# quarter of an hour.
PATIENCE = 15
PORTION_BATCHES = 3
# What a worker has at most, three portions, is computed again if it is lost.
INPUT_OF_A_WORKER = 3 * PORTION_BATCHES
# How often the log of each worker says that one joins: the chief's does of all.
JOINED = [WORKERS + 1, 1]


def setUpModule():
    namespaces.enter()


class Machines:
    """A job, each of whose processes is on a machine of its name."""

    def __init__(self, named=False, **settings):
        """`named`: by names that lead to addresses, and may lead elsewhere."""
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.run_directory = os.path.join(self.directory, "run")
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            job = paramd.tiny_job(self.directory)
            job["model"]["layers"] = LAYERS
            json.dump({**job, "portion_batches": PORTION_BATCHES,
                       "evaluate_every_epochs": 0, "replication": 2,
                       "lease_ms": 1000 * LEASE, "heartbeat_ms": 100,
                       **settings}, file)
        self.network = namespaces.Network()
        self.hosts = os.path.join(self.directory, "hosts") if named else None
        # Where each of them is, and what the others know it by.
        self.machine = {task: task for task in TASKS}
        self.names = {task: self.network.add(task) for task in TASKS}
        if named:
            self.names = {task: f"{task}.test" for task in TASKS}
            self.write_hosts()
        self.processes = {}

    def write_hosts(self):
        """For all machines; the file stays the one that they have mounted."""
        with open(self.hosts, "w", encoding="ascii") as file:
            for task, machine in self.machine.items():
                file.write(f"{self.network.address(machine)} "
                           f"{self.names[task]}\n")

    def move(self, task, machine):
        """Its name leads to that new machine, where it is to be started."""
        self.network.add(machine)
        self.machine[task] = machine
        self.write_hosts()

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.network.close()

    def start(self, task, *flags):
        kind, index = task.split("-")
        cluster = {"ps": [], "worker": []}
        for other in TASKS:
            cluster[other.split("-")[0]].append(f"{self.names[other]}:{PORT}")
        config = {"cluster": cluster,
                  "task": {"type": kind, "index": int(index)}}
        with open(self.log_path(task), "ab") as log:
            self.processes[task] = subprocess.Popen(
                [*self.network.under(self.machine[task], self.hosts),
                 paramd.BINARY, "run", "--insecure", "--job", self.job,
                 "--run_dir", self.run_directory, *flags],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
                env={**os.environ, "TF_CONFIG": json.dumps(config)})

    def signal(self, task, number):
        self.processes[task].send_signal(number)

    def log_path(self, task):
        return os.path.join(self.directory, f"{task}.log")

    def log(self, task="worker-0"):
        with open(self.log_path(task), encoding="utf-8") as file:
            return file.read()

    def last_words(self):
        return "".join(
            f"---- {task}\n" + "\n".join(self.log(task).splitlines()[-25:]) +
            "\n" for task in self.processes)

    def wait(self, task):
        """Its exit code."""
        try:
            return self.processes[task].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{task} does not end\n{self.last_words()}") from None

    def wait_until(self, true, what, patience=PATIENCE):
        """What `true` returned at last."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if found := true():
                return found
            time.sleep(0.05)
        raise AssertionError(f"in vain: {what}\n{self.last_words()}")

    def wait_for(self, text, task="worker-0", times=1):
        self.wait_until(lambda: self.log(task).count(text) >= times,
                        f"{text!r} of {task}")

    def status(self, *flags):
        """What `paramd status` says of the job; empty if nobody answers."""
        address = self.network.address(self.machine["worker-0"])
        return subprocess.run(
            [paramd.BINARY, "status", *flags, f"{address}:{PORT}"],
            capture_output=True, text=True, check=False).stdout

    def job_status(self):
        """For programs; None if the chief does not answer."""
        said = self.status("--format", "json")
        return json.loads(said).get("job") if said else None

    def server(self, index):
        """What the chief says of it."""
        job = self.wait_until(self.job_status, "status")
        return [member for member in job["members"]
                if member["task"]["type"] == "PS"][index]

    def place_of(self, index):
        """The ps in which a server is."""
        return f"ps-{self.server(index)['peer'] // PLACES}"

    def wait_for_backups(self, *servers):
        """Until these, or all, have one that is whole."""
        for server in servers or range(SERVERS):
            self.wait_until(
                lambda s=server: self.server(s)["backup_is_member"],
                f"a backup of ps-{server}")

    def wait_for_steps(self):
        """Until it has trained on."""
        step = lambda: (self.job_status() or {}).get("global_step", 0)
        first = self.wait_until(step, "a step")
        self.wait_until(lambda: step() > first + 20, f"steps after {first}")

    def newest_checkpoint(self):
        name = paramd.checkpoints(self.run_directory)[-1]
        return os.path.join(self.run_directory, "checkpoints", name)

    def result(self):
        path = os.path.join(self.run_directory, "result.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


class NamespacesTest(unittest.TestCase):

    def start(self, **settings):
        """A job that trains until `finish`, with a backup for each server."""
        self.machines = Machines(**settings)
        self.addCleanup(self.machines.close)
        self.network = self.machines.network
        self.staleness = settings.get("staleness", "async")
        for task in TASKS:
            self.start_again(task)
        self.machines.wait_for_backups()
        self.machines.wait_for_steps()

    def start_again(self, task):
        self.machines.start(task, "--epochs=1000000")

    def end(self, task):
        self.machines.signal(task, signal.SIGKILL)
        self.machines.wait(task)

    def lose_power(self, task):
        """It ends, and its machine can't say so."""
        self.network.unplug(task)
        self.machines.signal(task, signal.SIGKILL)
        self.machines.wait(task)

    def command(self, *arguments):
        """One of an operator, who need not wait for it."""
        return subprocess.Popen(
            [paramd.BINARY, *arguments, self.machines.run_directory],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def take_over(self, fault, why="is silent"):
        """`fault` strikes the second server's machine, which it returns."""
        said = f"ps-1 {why}; its backup takes over"
        before = self.machines.log().count(said)
        struck = self.machines.place_of(1)
        fault(struck)
        self.machines.wait_for(said, times=before + 1)
        self.assertNotEqual(self.machines.place_of(1), struck)
        self.machines.wait_for_steps()
        return struck

    def come_back(self, task):
        """The machine does, and holds a backup of the second server."""
        self.network.heal(task)
        self.machines.wait_for_backups(1)
        self.machines.wait_for_steps()

    # ---- the sum

    def finish(self, again=0):
        """The job goes on to the end of an epoch, and then the sum is taken.

        `again`: as many batches may have been computed once more.
        """
        words = self.machines.last_words()
        if again == 0:  # Nobody has begun anew.
            for worker, joined in enumerate(JOINED):
                self.assertEqual(self.machines.log(f"worker-{worker}").count(
                    "joined as generation"), joined, words)
        done = subprocess.run(
            [paramd.BINARY, "stop", self.machines.run_directory],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0,
                         done.stderr + self.machines.last_words())
        self.end_all()
        steps_per_epoch = BATCHES_PER_EPOCH // (
            WORKERS if self.staleness == "sync" else 1)
        step = int(self.machines.newest_checkpoint().rsplit("-", 1)[1])
        # A worker may have begun the one after the next.
        epochs = step // steps_per_epoch + 4
        for task in TASKS:
            self.machines.start(task, f"--epochs={epochs}")
        self.end_all()
        self.check_sum(steps_per_epoch * epochs, again)
        if self.staleness == "sync":
            self.check_bits(epochs)

    def end_all(self):
        for task in TASKS:
            self.assertEqual(self.machines.wait(task), 0,
                             self.machines.last_words())

    def check_sum(self, pushes, again):
        """Each block has taken them, and nothing is said to be lost."""
        words = self.machines.last_words()
        self.assertNotIn("came back without its shard", self.machines.log())
        self.assertNotIn("all servers go back", self.machines.log())
        manifest = os.path.join(self.machines.newest_checkpoint(),
                                "manifest.json")
        with open(manifest, encoding="utf-8") as file:
            files = json.load(file)["files"]
        self.assertEqual(len(files), SERVERS)
        for file in files:
            self.assertEqual(file.get("lost", []), [], words)
            for taken in (int(run["applied"]) for saved in file["slices"]
                          for run in saved["applied"]):
                self.assertIn(taken, range(pushes, pushes + again + 1),
                              f"{file['name']}\n{words}")
        result = self.machines.result()
        self.assertEqual(
            (int(result["pushes_lost"]), int(result["pushes_doubled"])), (0, 0))

    def check_bits(self, epochs):
        """The weights are those of one process without a cluster."""
        alone = paramd.Run(
            "run", "--job", self.machines.job, f"--epochs={epochs}",
            f"--set=accumulate={WORKERS}", "--replication=1",
            directory=self.machines.directory)
        self.addCleanup(alone.kill)
        self.assertEqual(alone.wait(), 0, alone.output)
        self.assertEqual(paramd.tensors(self.machines.newest_checkpoint()),
                         alone.tensors())

    # ---- servers

    def test_Promise1_a_machine_that_vanishes_is_taken_over(self):
        self.start()
        self.come_back(self.take_over(self.network.unplug))
        self.finish()

    def test_Promise1_a_server_that_stood_still_is_refused(self):
        self.start()
        struck = self.take_over(
            lambda task: self.machines.signal(task, signal.SIGSTOP))
        # It takes itself for the server until others tell it otherwise.
        self.machines.signal(struck, signal.SIGCONT)
        self.come_back(struck)
        self.finish()

    def test_Promise1_a_machine_that_lost_power_is_soon_back(self):
        self.start()

        def fault(task):
            self.lose_power(task)
            self.network.plug(task)
            # The others' connections are half open until they hear from it.
            self.start_again(task)

        self.come_back(self.take_over(fault, "is gone"))
        self.finish()

    def test_Promise1_a_backup_that_is_cut_off_comes_back(self):
        self.start()
        self.network.part("ps-1", "ps-2")
        self.machines.wait_for("ps-1 goes on without its backup: it has taken")
        self.machines.wait_for_steps()
        self.assertRegex(self.machines.status(), r"ps-1 .* on one server")
        self.come_back("ps-1")
        self.assertRegex(self.machines.status(), r"ps-1 .* backup ps-2")
        self.finish()

    def test_Promise1_a_slow_link_to_a_backup_loses_nothing(self):
        self.start()
        self.network.slow("ps-2", "1mbit")
        for _ in range(3):
            self.machines.wait_for_steps()
        self.finish()

    # ---- the chief

    def test_Promise5_a_chief_that_is_cut_off_for_a_moment(self):
        self.start()
        self.network.unplug("worker-0")
        time.sleep(LEASE / 2)
        self.come_back("worker-0")
        self.finish()

    def test_Promise5_a_chief_that_is_cut_off_for_longer_than_a_lease(self):
        self.start()
        self.network.unplug("worker-0")
        time.sleep(2 * LEASE)
        self.come_back("worker-0")
        # For the chief worker-1 was gone.
        self.machines.wait_for("first push of generation", "worker-1", times=2)
        self.finish(again=INPUT_OF_A_WORKER)

    # ---- what is under way

    def test_Promise3_a_checkpoint_outlives_a_server_that_nobody_hears(self):
        self.start(staleness="sync")
        with self.command("checkpoint", "now") as command:
            struck = self.take_over(self.network.mute)
            said = command.communicate()[0]
        self.assertEqual(command.returncode, 0, said)
        self.come_back(struck)
        self.finish()

    def test_Promise1_a_server_is_cut_off_while_it_is_drained(self):
        self.start()
        self.network.mute("ps-1")
        with self.command("drain", "ps-1") as command:
            self.take_over(lambda _: None)
            self.network.heal("ps-1")
            said = command.communicate()[0]
        self.assertEqual(command.returncode, 0, said)
        self.assertEqual(self.machines.wait("ps-1"), 0)
        self.start_again("ps-1")
        self.come_back("ps-1")
        self.finish()

    def test_Promise4_who_drains_a_server_hears_that_its_backup_was_lost(self):
        self.start()
        # Nothing reaches it, so its own server is taken over too.
        self.network.deafen("ps-2")
        with self.command("drain", "ps-1") as command:
            said = command.communicate()[0]
        self.machines.wait_for("ps-2 is silent; its backup takes over")
        self.assertEqual(command.returncode, 138, said)
        self.assertIn("ps-1 has ended and is not drained: ps-1 lost its backup "
                      "meanwhile; start ps-1 again", said)
        self.assertEqual(self.machines.wait("ps-1"), 138)
        self.network.heal("ps-2")
        self.start_again("ps-1")
        self.machines.wait_for("ps-1 is back after it was stopped")
        self.come_back("ps-1")
        self.finish()

    # ---- names

    def test_Promise1_the_name_of_a_server_leads_to_another_machine(self):
        self.start(named=True)
        first = self.take_over(self.end, "is gone")
        self.machines.move(first, "spare")
        self.start_again(first)
        self.machines.wait_for_backups()
        # Workers find it where it is now.
        second = self.take_over(self.end, "is gone")
        self.assertEqual(self.machines.place_of(1), first)
        self.start_again(second)
        self.come_back(second)
        self.finish()

    def test_Promise1_a_vanished_server_comes_back_at_another_address(self):
        self.start(named=True)

        def fault(task):
            self.lose_power(task)
            self.machines.move(task, "spare")
            self.start_again(task)

        struck = self.take_over(fault)
        # Nothing resets the connections to where it was.
        self.machines.wait_until(
            lambda: self.machines.server(1)["backup_is_member"],
            "a backup of ps-1 at the new address", patience=10)
        # Workers find it there, too.
        other = self.take_over(self.end, "is gone")
        self.assertEqual(self.machines.place_of(1), struck)
        self.start_again(other)
        self.come_back(other)
        self.finish()

    def test_Promise5_the_name_of_the_chief_leads_to_another_machine(self):
        self.start(named=True)
        self.lose_power("worker-0")
        self.machines.move("worker-0", "spare")
        self.start_again("worker-0")
        # With its session, or with another one if it was silent for too long.
        self.machines.wait_until(
            lambda: re.search(r"worker-1 (goes on|joined) as generation",
                              self.machines.log().split(" starting ")[-1]),
            "worker-1 finds the chief", patience=2 * PATIENCE)
        self.come_back("spare")
        self.finish(again=WORKERS * INPUT_OF_A_WORKER)


if __name__ == "__main__":
    unittest.main()
