"""Jobs that begin with the rows by key of another one, in real processes."""

import os
import subprocess
import unittest

from tests.cluster import paramd
from tests.cluster.keyed_job import TABLE, KeyedCase, by_key, job, rows_of


class KeyedWarmStartTest(KeyedCase):

    def test_another_job_begins_with_the_rows_of_a_checkpoint(self):
        first = self.train(job(), "local", "--workers=1", "--servers=2")
        trained = rows_of(first.tensors())
        self.assertGreater(len(trained), 3000)
        # Another number of buckets; of more examples the last have other keys.
        # What is learned is too little to change a bit.
        settings = job("sgd", capacity=60000, examples=736)
        settings["optimizer"]["learning_rate"] = 1e-30
        exported = os.path.join(first.run_directory(), "exported")
        subprocess.check_output(
            [paramd.BINARY, "checkpoint", "export", first.run_directory(),
             "--to", exported])
        for path in (first.run_directory(), exported):
            settings["warm_start"] = {"path": path}
            run = self.train(settings, "local", "--workers=1", "--servers=3")
            self.assertIn("rows are taken by their keys", run.output)
            found = rows_of(run.tensors())
            self.assertGreater(len(found), len(trained), "and new ones")
            self.assert_same({key: found.get(key) for key in trained}, trained,
                             "of the other job")
        # All that the chief asks for is there, but no room for it.
        settings = job(capacity=1000, warm_start={"path": exported})
        run = self.start(settings, "local", "--workers=1", "--servers=3")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(f"has {len(trained)} rows with a key; variable '{TABLE}' "
                      "has room for 1000: give it a capacity of "
                      f"{len(trained)}", run.output)

    def test_rows_of_a_warm_start_do_not_depend_on_servers(self):
        first = self.train(job(), "run")
        # Nearly full from the start: most keys take the row of another one.
        settings = job("adam", capacity=4096, examples=960, seed=5,
                       warm_start={"path": first.run_directory()})
        alone = by_key(self.train(settings, "run").tensors())
        self.assertEqual(len(alone[TABLE]), 4096)
        kept = set(alone[TABLE]) & set(rows_of(first.tensors()))
        self.assertGreater(len(kept), 100)
        found = by_key(self.train(settings, "local", "--workers=1",
                                  "--servers=3").tensors())
        self.assert_same(found, alone, "three servers")


if __name__ == "__main__":
    unittest.main()
