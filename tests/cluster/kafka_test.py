"""A topic of Kafka as the training set, and processes that are killed meanwhile."""

import json
import os
import signal
import struct
import subprocess
import time
import unittest

from tests.cluster import paramd
from tests.cluster.kafka import Kafka

TABLE = "embedding_1/table"
PORTION_BATCHES = 2


def clicks(count, begin=0):
    """Each with an ad that no other one has."""
    return [f"ad{i},{i % 2}" for i in range(begin, begin + count)]


WINDOW = 100
CLICK = "click,"


def delayed_clicks(count):
    """Pairs of a key and a message: every third example is clicked soon, every seventh
    long after, and one in fifty a bit before it is sent."""
    messages = []
    for i in range(count):
        messages.append((i, 1, f"k{i}", f"ad{i},0"))
        if i % 3 == 0:
            messages.append((i + 40, 0, f"k{i}", CLICK))
        if i % 7 == 1:
            messages.append((i + 600, 0, f"k{i}", CLICK))
        if i % 50 == 2:
            messages.append((i - 30, 0, f"k{i}", CLICK))
    messages.append((count, 0, "nobody", CLICK))
    return [(key, message) for _, _, key, message in sorted(messages)]


def joined(messages, kafka):
    """The examples with their labels: 1 where a click is near in its partition."""
    clicked, places, examples = {}, {}, []
    for key, message in messages:
        partition = kafka.partition_of(key)
        place = places.get(partition, 0)
        places[partition] = place + 1
        if message == CLICK:
            clicked.setdefault(key, []).append(place)
        else:
            examples.append((key, place, message))
    return [message.replace(",0", ",1")
            if any(abs(place - click) <= WINDOW for click in clicked.get(key, []))
            else message for key, place, message in examples]


class KafkaTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=2)
        self.kafka = Kafka()
        self.addCleanup(self.kafka.end)
        self.write("test.csv", clicks(2))

    def write(self, name, rows):
        path = os.path.join(self.cluster.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("ad,click\n")
            file.writelines(f"{row}\n" for row in rows)

    def job(self, train, **kafka):
        """What an example does to the row of its ad depends on nothing else."""
        csv = {"label": "click", "columns": ["ad"], "hash_keys": True,
               "classes": 2}
        directory = self.cluster.directory
        train = {"csv": csv | train} if train else {
            "kafka": {"brokers": self.kafka.brokers, "topic": "clicks",
                      "columns": ["ad", "click"], **kafka},
            "csv": csv}
        return {
            "name": "clicks",
            "batch_per_replica": 1,
            "portion_batches": PORTION_BATCHES,
            "lease_ms": 5000,
            "heartbeat_ms": 200,
            "input": {
                "train": train,
                "test": {"directory": directory,
                         "csv": {"files": "test.csv", **csv}},
            },
            "model": {
                "layers": [{"embedding": {"width": 2, "sparse": True,
                                          "capacity": 16384}}, "flatten"],
                "loss": "softmax_cross_entropy"},
            "optimizer": {"sgd": {}, "learning_rate": 0.5},
        }

    def write_job(self, job):
        job["input"].setdefault("follow", {"poll_ms": 50})
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start(self, *tasks):
        runs = [self.cluster.start(task) for task in tasks]
        for run in runs:
            self.addCleanup(run.kill)
        return runs if len(runs) > 1 else runs[0]

    def wait(self, *runs):
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)

    def rows(self, directory):
        """The weights of each key, as bytes."""
        newest = paramd.checkpoints(directory)[-1]
        tensors = paramd.tensors(os.path.join(directory, "checkpoints", newest))
        keys = tensors[f"{TABLE}/slot:key"]
        used = tensors[f"{TABLE}/slot:used"]
        count = len(keys) // 8
        width = len(tensors[TABLE]) // count
        return {key: tensors[TABLE][i * width:(i + 1) * width]
                for i, (key, last) in enumerate(
                    zip(struct.unpack(f"<{count}Q", keys),
                        struct.unpack(f"<{count}Q", used))) if last}

    def expected(self, messages):
        """What one process trains on them in a file, each once."""
        self.write("train.csv", messages)
        job = self.job({"files": "train.csv"})
        job["input"]["train"]["directory"] = self.cluster.directory
        path = os.path.join(self.cluster.directory, "file_job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run("run", "--job", path)
        self.addCleanup(run.kill)
        self.wait(run)
        return self.rows(run.run_directory())

    def assert_each_once(self, messages, computed_again=0):
        """Each has its row; all but so many have the bits of one update."""
        found = self.rows(self.cluster.run_directory)
        expected = self.expected(messages)
        self.assertEqual(len(expected), len(messages))
        self.assertEqual(set(found), set(expected))
        differing = [key for key, row in expected.items() if found[key] != row]
        self.assertLessEqual(len(differing), computed_again)

    def test_promise1_each_message_is_trained_on_once(self):
        messages = clicks(500)
        self.kafka.produce(messages)
        self.write_job(self.job(None, until="latest"))
        self.wait(*self.start("ps-0", "worker-0", "worker-1"))
        self.assert_each_once(messages)

    def test_promise1_a_worker_that_leaves_and_returns_repeats_no_message(self):
        messages = clicks(3000)
        self.write_job(self.job(None, max_messages=len(messages)))
        server, chief, worker = self.start("ps-0", "worker-0", "worker-1")
        self.kafka.produce(messages[:1500])
        worker.wait_for("first push of generation")
        worker.signal(signal.SIGTERM)
        worker.wait()
        worker = self.start("worker-1")
        self.kafka.produce(messages[1500:])
        self.wait(server, chief, worker)
        self.assert_each_once(messages)

    def test_promise1_killed_processes_lose_no_message(self):
        messages = clicks(6000)
        self.write_job(self.job(None, max_messages=len(messages)))
        server, chief, worker = self.start("ps-0", "worker-0", "worker-1")
        chief.wait_for("worker-1 joined", "topic 'clicks' has 3 partitions")
        self.kafka.produce(messages[:2000])
        worker.wait_for("first push of generation")
        worker.signal(signal.SIGKILL)
        worker.wait()
        worker = self.start("worker-1")
        self.kafka.produce(messages[2000:4000])
        chief.wait_for("epoch 2: ")
        chief.signal(signal.SIGKILL)
        chief.wait()
        self.kafka.produce(messages[4000:])
        chief = self.start("worker-0")
        worker.wait_for("first push of generation")
        worker.signal(signal.SIGKILL)
        worker.wait()
        worker = self.start("worker-1")
        self.wait(server, chief, worker)
        # A worker that is killed has three portions at most, which others
        # compute again.
        self.assert_each_once(messages, computed_again=3 * 3 * PORTION_BATCHES)

    def test_promise1_labels_that_come_later_are_the_same_after_kills(self):
        messages = delayed_clicks(3000)
        self.kafka.produce_keyed(messages)
        self.write_job(self.job(None, until="latest", epoch_messages=500, join={
            "click": CLICK, "window_messages": WINDOW}))
        server, chief, worker = self.start("ps-0", "worker-0", "worker-1")
        worker.wait_for("first push of generation")
        worker.signal(signal.SIGKILL)
        worker.wait()
        worker = self.start("worker-1")
        chief.wait_for("epoch 2: ")
        chief.signal(signal.SIGKILL)
        chief.wait()
        chief = self.start("worker-0")
        self.wait(server, chief, worker)
        examples = joined(messages, self.kafka)
        labels = [example.endswith(",1") for example in examples]
        self.assertGreater(sum(labels), 1000)
        self.assertGreater(len(labels) - sum(labels), 1000)
        self.assert_each_once(examples, computed_again=3 * 3 * PORTION_BATCHES)

    def test_a_message_without_a_key_is_named_where_labels_are_joined(self):
        self.kafka.produce(clicks(3))
        self.write_job(self.job(None, until="latest", join={"click": CLICK}))
        self.assert_fails(" offset 0: has no key, by which "
                          "input.train.kafka.join finds its click")

    def test_a_run_begins_at_offsets_and_ends_after_so_many_messages(self):
        messages = clicks(30)
        self.kafka.produce(messages)
        self.write_job(self.job(None, offsets=[9, 9, 8], max_messages=4))
        self.wait(*self.start("ps-0", "worker-0", "worker-1"))
        self.assert_each_once([messages[i] for i in (27, 28, 26, 29)])

    def test_a_topic_without_messages_says_so(self):
        self.write_job(self.job(None, until="latest"))
        self.wait(*self.start("ps-0", "worker-0", "worker-1"))
        with open(os.path.join(self.cluster.run_directory, "result.json"),
                  encoding="utf-8") as file:
            warnings = " ".join(json.load(file)["warnings"])
        self.assertIn("topic 'clicks' had no message", warnings)

    def test_a_broker_that_is_away_is_waited_for_by_name(self):
        messages = clicks(100)
        self.kafka.produce(messages)
        self.kafka.tell("down")
        self.write_job(self.job(None, until="latest"))
        server, chief, worker = self.start("ps-0", "worker-0", "worker-1")
        chief.wait_for("looking for new messages is tried again: ")
        said = ""
        while self.kafka.brokers not in said:
            said = self.status()
            time.sleep(0.1)
        self.assertIn("new messages of topic 'clicks'", said)
        self.kafka.tell("up")
        self.wait(server, chief, worker)
        self.assert_each_once(messages)

    def status(self):
        """What `paramd status` says, among it whom the chief waits for."""
        return subprocess.run(
            [paramd.BINARY, "status", "--format", "json",
             self.cluster.address("worker-0")],
            text=True, capture_output=True, check=False).stdout

    # ---- mistakes

    def assert_fails(self, sentence):
        """One process, which says why it ends."""
        run = paramd.Run("run", "--job", self.cluster.job)
        self.addCleanup(run.kill)
        self.assertNotEqual(run.wait(), 0, run.output)
        self.assertIn(sentence, run.output)

    def test_a_message_that_is_no_row_is_named_by_partition_and_offset(self):
        self.kafka.produce(clicks(4) + ["ad4,2"] + clicks(1))
        self.write_job(self.job(None, until="latest"))
        self.assert_fails("topic 'clicks' partition 1 offset 1: ")

    def test_messages_that_are_no_rows_are_skipped_where_the_job_says_so(self):
        self.kafka.produce(["ad0,0", "nothing", "ad2,0"])
        job = self.job(None, until="latest")
        job["input"]["on_error"] = "skip"
        self.write_job(job)
        self.wait(*self.start("ps-0", "worker-0", "worker-1"))
        self.assert_each_once(["ad0,0", "ad2,0"])

    def test_offsets_beyond_the_end_are_refused(self):
        self.kafka.produce(clicks(3))
        self.write_job(self.job(None, offsets=[7]))
        self.assert_fails("input.train.kafka.offsets[0] is 7; topic 'clicks' "
                          "partition 0 ends at offset 1")

    def test_a_property_that_librdkafka_does_not_know_is_refused(self):
        self.write_job(self.job(None, properties=["sasl.pasword=hunter2"]))
        run = paramd.Run("run", "--job", self.cluster.job)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 2)
        self.assertIn("input.train.kafka.properties names 'sasl.pasword', "
                      "which librdkafka does not know", run.output)
        self.assertNotIn("hunter2", run.output)

    def test_values_of_properties_are_not_printed(self):
        self.write_job(self.job(None, until="latest",
                                properties=["sasl.password=hunter2"]))
        run = paramd.Run("config", "print", "--job", self.cluster.job)
        self.addCleanup(run.kill)
        run.wait()
        self.assertIn("(not printed)", run.output)
        self.assertNotIn("hunter2", run.output)


if __name__ == "__main__":
    unittest.main()
