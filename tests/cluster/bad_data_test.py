"""Files with something wrong in them: one sentence with file and position, exit
code 2 where the job is wrong and 1 where the data are, and nothing is pushed of
the batch that failed."""

import gzip
import json
import os
import struct
import tempfile
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

# The broken one, in the third batch of 8.
BROKEN = 20
COUNT = 32


class BadDataTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.data = os.path.join(self.directory, "data")
        os.mkdir(self.data)

    def start(self, job):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run("run", "--job", path, directory=self.directory)
        self.addCleanup(run.kill)
        return run

    def assert_refused(self, job, code, sentence):
        """`sentence`: all of it behind the directory of the data."""
        run = self.start({**job, "checkpoint": {"every_steps": 1}})
        self.assertEqual(run.wait(), code, run.output)
        said = [line for line in run.output.splitlines()
                if line.startswith("paramd: ")]
        self.assertEqual(len(said), 1, run.output)
        self.assertIn(f"'{self.data}/{sentence}", said[0])
        runs = os.path.join(self.directory, "runs")
        if os.path.isdir(runs) and os.listdir(runs):
            steps = [int(name.rsplit("-", 1)[1])
                     for name in paramd.checkpoints(run.run_directory())]
            self.assertLessEqual(max(steps, default=0), BROKEN // 8)

    # ---- CSV

    def refuse_csv(self, row, sentence):
        rows = files.csv_rows(COUNT)
        rows[BROKEN] = row
        files.write(self.data, "train.csv", files.csv(rows))
        self.assert_refused(files.job(self.data, files.CSV), 1,
                            f"train.csv' line {BROKEN + 2}: {sentence}")

    def test_a_row_with_a_missing_column(self):
        self.refuse_csv("1,2", "has 2 columns; 3 are needed")

    def test_text_for_a_number(self):
        self.refuse_csv("1,two,3", "column 'y' needs a number; found 'two'")

    def test_a_label_out_of_range(self):
        self.refuse_csv("1,2,10", "column 'kind' needs a whole number from 0 "
                        "to 9; found '10'")

    def test_a_column_that_the_job_alone_knows(self):
        files.write(self.data, "train.csv", b"x,y\n1,2\n")
        self.assert_refused(files.job(self.data, files.CSV), 2,
                            "train.csv' has no column 'kind'; it has x, y")

    def test_columns_of_two_kinds(self):
        def job(keys):
            features = [{"name": "numbers", "columns": ["x"]},
                        {"name": "keys", "columns": keys, "hash_buckets": 8}]
            return files.job(self.data, {
                "csv": {**files.CSV["csv"], "features": features}},
                stages=[])
        files.write(self.data, "train.csv", files.csv(files.csv_rows(COUNT)))
        run = self.start(job(["y", "x"]))
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("csv.features[1].columns reads 'x' as texts, and "
                      "csv.features[0].columns as numbers", run.output)
        self.assert_refused(job(["z"]), 2, "train.csv' has no column 'z'")

    def test_a_file_without_examples(self):
        files.write(self.data, "train.csv", files.csv([]))
        self.assert_refused(files.job(self.data, files.CSV), 2,
                            "train.csv' holds no row")

    def test_what_is_skipped_is_counted(self):
        rows = files.csv_rows(COUNT)
        rows[3] = "1,2"
        rows[BROKEN] = "1,two,3"
        files.write(self.data, "train.csv", files.csv(rows))
        run = self.start({**files.job(self.data, files.CSV, on_error="skip"),
                          "evaluate_every_epochs": 0})
        self.assertEqual(run.wait(), 0, run.output)
        skipped = [line for line in run.output.splitlines()
                   if "an example is skipped" in line]
        for line, where in zip(skipped, ["line 5", "line 22"]):
            self.assertIn(f"'{self.data}/train.csv' {where}", line)
        self.assertIn("skipped=2", skipped[1])

    def test_what_gzip_has_packed_is_trained_on(self):
        text = files.csv(files.csv_rows(COUNT)).replace(b"\n", b"\r")
        files.write(self.data, "train.csv", gzip.compress(text))
        run = self.start(files.job(self.data, files.CSV))
        self.assertEqual(run.wait(), 0, run.output)

    def test_what_is_packed_and_cut_off(self):
        text = files.csv(files.csv_rows(COUNT))
        files.write(self.data, "train.csv", gzip.compress(text)[:-9])
        self.assert_refused(files.job(self.data, files.CSV), 1,
                            "train.csv' is truncated: what is packed in it")

    def test_a_file_that_git_lfs_left_out(self):
        files.write(self.data, "train.csv",
                    b"version https://git-lfs.github.com/spec/v1\n"
                    b"oid sha256:4d7a2146\nsize 12345\n")
        self.assert_refused(files.job(self.data, files.CSV), 2,
                            "train.csv' is a Git LFS pointer, not the file")

    def test_a_header_that_never_ends(self):
        files.write(self.data, "train.csv", b"x," * 500000)
        run = self.start(files.job(self.data, files.CSV))
        self.assertEqual(run.wait(), 2, run.output)
        self.assertLess(len(run.output), 2000)

    # ---- TFRecord

    def test_a_record_with_other_bytes_than_its_checksum_says(self):
        records = files.examples(COUNT)
        records[BROKEN] = records[BROKEN].replace(b"label", b"libel")
        files.write(self.data, "a.tfrecord", b"".join(records))
        at = len(b"".join(records[:BROKEN]))
        self.assert_refused(files.job(self.data, files.TFRECORD), 1,
                            f"a.tfrecord' record at byte {at}: ")

    def test_a_record_that_ends_too_early(self):
        records = files.examples(COUNT)
        at = len(b"".join(records[:-1]))
        files.write(self.data, "a.tfrecord", b"".join(records)[:-9])
        self.assert_refused(files.job(self.data, files.TFRECORD), 1,
                            f"a.tfrecord' record at byte {at}: it says ")

    # ---- images

    def write_images(self, name, content):
        for i in range(COUNT):
            files.write(self.data, f"kind/{i:02}.png", files.png(4, 4, i))
        os.remove(os.path.join(self.data, f"kind/{BROKEN}.png"))
        files.write(self.data, f"kind/{name}", content)

    def refuse_image(self, name, sentence, *stages):
        job = files.job(self.data, files.IMAGES, [*stages, files.AS_FLOATS])
        self.assert_refused(job, 1, f"kind/{name}': {sentence}")

    def test_a_truncated_jpeg(self):
        self.write_images(f"{BROKEN}.jpg", files.JPEG[:-20])
        self.refuse_image(f"{BROKEN}.jpg", "libjpeg finds ")

    def test_a_whole_jpeg_is_read(self):
        self.write_images(f"{BROKEN}.jpg", files.JPEG)
        run = self.start(files.job(self.data, files.IMAGES, [files.AS_FLOATS]))
        self.assertEqual(run.wait(), 0, run.output)

    def test_what_is_no_image(self):
        self.write_images(f"{BROKEN}.png", b"GIF89a")
        self.refuse_image(f"{BROKEN}.png", "neither PNG nor JPEG")

    def test_an_image_of_another_shape(self):
        self.write_images(f"{BROKEN}.png", files.png(5, 4, 0))
        self.refuse_image(f"{BROKEN}.png", "'image' is float32 4x5x1; the "
                          "batch has float32 4x4x1")

    def test_an_image_that_is_too_small_for_a_map(self):
        self.write_images(f"{BROKEN}.png", files.png(2, 4, 0))
        self.refuse_image(
            f"{BROKEN}.png", "crop of 'image': the image is 4x2; 3x3 cannot",
            {"crop": {"feature": "image", "height": 3, "width": 3}})

    # ---- records

    RECORDS = {"records": {
        "files": ["a.bin"],
        "features": [{"name": "x", "dims": [2]},
                     {"name": "label", "type": "int32"}]}}

    def write_records(self, kinds):
        return files.write(self.data, "a.bin", b"".join(
            struct.pack("<2fi", 1, 2, kind) for kind in kinds))

    def test_a_label_that_the_loss_does_not_know(self):
        kinds = [i % 10 for i in range(COUNT)]
        kinds[BROKEN] = 10
        self.write_records(kinds)
        self.assert_refused(
            files.job(self.data, self.RECORDS), 1, f"a.bin' record {BROKEN}: "
            "the label is 10; it must be from 0 to 9")

    def test_a_map_that_finds_a_bad_value(self):
        kinds = [i % 10 for i in range(COUNT)]
        kinds[BROKEN] = 10
        self.write_records(kinds)
        job = files.job(self.data, self.RECORDS,
                        [{"one_hot": {"feature": "label", "classes": 10}}])
        job["model"]["loss"] = "kl_divergence"
        self.assert_refused(job, 1, f"a.bin' record {BROKEN}: one_hot of "
                            "'label': value 10 is not a class")

    def test_a_file_that_shrinks_while_it_is_read(self):
        path = self.write_records([1] * COUNT)
        job = files.job(self.data, self.RECORDS)
        run = self.start({**job, "epochs": 1000000,
                          "evaluate_every_epochs": 0})
        run.wait_for("first push of generation")
        os.truncate(path, 12 * BROKEN)
        self.assertEqual(run.wait(), 1, run.output)
        said = [line for line in run.output.splitlines()
                if line.startswith("paramd: ")]
        self.assertEqual(len(said), 1, run.output)
        self.assertRegex(
            said[0], rf"^paramd: '{path}' record \d+: '{path}' ends at byte "
            r"\d+; \d+ bytes from byte \d+ are needed: it had "
            rf"{12 * COUNT} bytes when it was opened$")


if __name__ == "__main__":
    unittest.main()
