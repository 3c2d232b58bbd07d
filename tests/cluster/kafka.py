"""A Kafka for tests: librdkafka's mock cluster in a process of its own (mock_kafka.cc)."""

import os
import subprocess
import zlib

MOCK = os.path.abspath("tests/cluster/mock_kafka")


class Kafka:
    """A broker with one topic."""

    def __init__(self, partitions=3):
        self.process = subprocess.Popen(
            [MOCK, "clicks", str(partitions)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.brokers = self.process.stdout.readline().strip()
        self.partitions = partitions
        self.produced = 0

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def produce(self, messages):
        """In turn to each partition; returns when all are there."""
        for message in messages:
            self.process.stdin.write(
                f"{self.produced % self.partitions} {message}\n")
            self.produced += 1
        self.flush()

    def produce_keyed(self, messages):
        """Pairs of a key and a message; each key has its partition."""
        for key, message in messages:
            self.process.stdin.write(
                f"{self.partition_of(key)}:{key} {message}\n")
        self.flush()

    def partition_of(self, key):
        return zlib.crc32(key.encode()) % self.partitions

    def flush(self):
        self.tell("flush")
        assert self.process.stdout.readline() == "flush\n"

    def end(self):
        self.process.kill()
        self.process.communicate()
