"""Parquet files become the records that CSV files with the same rows become.

Skipped by name where there is no NumPy, or no pyarrow.
"""

import datetime
import decimal
import fcntl
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

try:
    import numpy as np
except ImportError:
    np = None

PARAMD = os.path.abspath("cli/paramd")
sys.path.insert(0, os.path.abspath("python"))

NEEDS_PYARROW = unittest.skipUnless(importlib.util.find_spec("pyarrow"),
                                    "needs pyarrow")
# What both kinds of files are described by.
COLUMNS = {
    "features": [
        {"name": "numbers", "columns": ["price", "age", "seen"], "missing": [0, -1.5, 2]},
        {"name": "day", "columns": ["day"], "classes": 7, "missing": 3},
        {"name": "keys", "columns": ["user", "item", "place", "date", "seen", "gone"],
         "hash_keys": True},
        {"name": "items", "columns": ["item", "history"], "hash_buckets": 1000,
         "list_column": "history", "list_of": "item", "list_length": 3}],
    "labels": [{"column": "click", "name": "label"},
               {"column": "kind", "class_names": ["new", "old"]}],
    "group": "user", "weight": "shown",
}


def fnv(text, salt=0):
    """base/random.h, byte by byte."""
    found = 0xCBF29CE484222325 ^ salt * 0x9E3779B97F4A7C15 % 2 ** 64
    for byte in text:
        found = (found ^ byte) * 0x100000001B3 % 2 ** 64
    return found


def rows(numbers):
    """Columns, with None where there is nothing."""
    table = {name: [] for name in ("click", "price", "age", "seen", "day", "user",
                                   "item", "place", "date", "gone", "history", "kind",
                                   "shown")}
    for i in numbers:
        history = [f"item {(i + j) % 13}" for j in range(i % 6)]
        values = {
            "click": i * 7 % 5 % 2, "price": i * 0.375 - 9,
            "age": None if i % 9 == 0 else i % 70, "seen": i % 4 < 2,
            "day": None if i % 10 == 0 else i % 7, "user": 10 ** 12 + i % 23,
            "item": None if i % 11 == 0 else f" item {i % 13}\t",
            "place": "Zürich" if i % 2 else "", "gone": None,
            "date": datetime.date(2026, 1, 1) + datetime.timedelta(days=i),
            "history": None if i % 5 == 4 else history + ["", None] * (i % 2) + ["last"],
            "kind": "old" if i % 3 else "new", "shown": 1 + i % 4,
        }
        for name, value in values.items():
            table[name].append(value)
    return table


def csv_text(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "|".join(text or "" for text in value)
    return str(value)


@unittest.skipIf(np is None, "needs NumPy")
class HashTest(unittest.TestCase):

    def test_it_is_the_one_of_csv(self):
        from paramd import _columns
        texts = [b"", b"a", b"shoe", "Zürich".encode(), b"\0\0", b"x" * 1000, b"a",
                 b"\xff"]
        for salt in (0, 7, fnv(b"item"), 2 ** 64 - 1):
            self.assertEqual(list(map(int, _columns.hash_texts(texts, salt))),
                             [fnv(text, salt) for text in texts])
        self.assertEqual(len(_columns.hash_texts([])), 0)
        self.assertEqual(list(map(int, _columns.hash_texts([b""]))), [fnv(b"")])

    def test_numbers_have_room_in_a_record(self):
        import paramd
        from paramd import _columns
        most = 2 ** 31 - 1
        for options in ({"hash_buckets": most}, {"classes": most}):
            feature = _columns.Feature({"name": "x", "columns": ["x"], **options})
            self.assertEqual(feature.describe()["classes"], most)
        for options, found in (({"hash_buckets": most + 1}, most + 1),
                               ({"hash_buckets": -5}, -5), ({"classes": most + 1}, most + 1)):
            with self.assertRaisesRegex(
                    paramd.InvalidArgument,
                    f"of 'x' must be from 0 to {most}; found {found}$"):
                _columns.Feature({"name": "x", "columns": ["x"], **options})

    def test_without_pyarrow_a_sentence_says_what_to_do(self):
        import paramd.parquet
        with unittest.mock.patch.dict(sys.modules, {"pyarrow": None}):
            with self.assertRaisesRegex(paramd.Error, "pip install pyarrow$"):
                paramd.parquet.convert("a.parquet", "out", label="click")
            with self.assertRaisesRegex(paramd.Error, "pip install pyarrow$"):
                paramd.parquet.Dataset("a.parquet", label="click")


@unittest.skipIf(np is None, "needs NumPy")
@NEEDS_PYARROW
class ParquetTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.out = self.directory / "out"

    def write(self, name, table, row_group_size=40, **types):
        """A Parquet file of these columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        path = str(self.directory / name)
        arrays = {column: pa.array(values, types.get(column))
                  for column, values in table.items()}
        pq.write_table(pa.table(arrays), path, row_group_size=row_group_size)
        return path

    def write_log(self):
        """The same rows twice: Parquet files, and CSV files' pattern."""
        import pyarrow as pa
        paths = []
        for number, of_file in enumerate((range(130), range(130, 200))):
            table = rows(of_file)
            paths.append(self.write(f"{number}.parquet", table, gone=pa.null(),
                                    kind=pa.dictionary(pa.int8(), pa.string()),
                                    shown=pa.float32() if number else pa.uint8(),
                                    item=pa.large_string() if number else pa.string()))
            lines = [",".join(table)] + [
                ",".join(map(csv_text, row)) for row in zip(*table.values())]
            (self.directory / f"{number}.csv").write_text(
                "\n".join(lines).replace("true", "1").replace("false", "0") + "\n")
        return paths

    def convert_csv(self, csv, to, *arguments):
        """The input.train that `paramd input convert` prints."""
        job = {"name": "clicks", "input": {
            "train": {"directory": str(self.directory), "csv": csv}},
            "model": {"layers": [{"dense": 1}], "loss": "binary_cross_entropy"},
            "optimizer": {"sgd": {}, "learning_rate": 0.1}}
        path = self.directory / "job.json"
        path.write_text(json.dumps(job))
        done = subprocess.run(
            [PARAMD, "input", "convert", "--job", path, "--to", to, *arguments],
            env={}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["input"]["train"]

    def contents(self, directory):
        return {path.name: path.read_bytes()
                for path in sorted(pathlib.Path(directory).iterdir())}

    def convert(self, files, to=None, **options):
        import paramd.parquet
        return paramd.parquet.convert(files, to or self.out, **options)

    def refusal(self, files, **options):
        """The sentence; nothing is left."""
        import paramd
        before = set(os.listdir(self.directory))
        with self.assertRaises(paramd.InvalidArgument) as caught:
            self.convert(files, **options)
        self.assertEqual(set(os.listdir(self.directory)), before)
        return str(caught.exception)

    def test_records_are_those_of_csv_files_with_the_same_rows(self):
        paths = self.write_log()
        # A bool is true or false as a text, and 1 or 0 as a number: `seen` is read as
        # both, which a column of CSV can't be.
        columns = json.loads(json.dumps(COLUMNS))
        columns["features"][2]["columns"].remove("seen")
        read = self.convert_csv({**columns, "files": ["*.csv"]}, self.directory / "csv",
                                "--part_size=5000")
        found = self.convert(paths, part_size=5000, **columns)
        self.assertEqual(found["records"], read["records"])
        expected = self.contents(self.directory / "csv")
        self.assertGreater(len(expected), 3)
        self.assertEqual(self.contents(self.out), expected)

    def test_all_columns_but_the_label_make_a_feature_unless_some_are_named(self):
        table = {"click": [0, 1], "user": ["a", None], "ad": [17, 4]}
        path = self.write("a.parquet", table)
        (self.directory / "a.csv").write_text("click,user,ad\n0,a,17\n1,,4\n")
        for options in ({"hash_keys": True}, {"hash_buckets": 50, "name": "ids"}):
            with self.subTest(options):
                to = self.directory / options.get("name", "keys")
                read = self.convert_csv(
                    {**options, "label": "click", "classes": 2, "files": "a.csv"},
                    f"{to}-csv")
                found = self.convert(path, to, label="click", classes=2, **options)
                self.assertEqual(found, {"directory": str(to),
                                         "records": read["records"]})
                self.assertEqual(self.contents(to), self.contents(f"{to}-csv"))

    def test_a_bool_is_hashed_as_its_word(self):
        path = self.write("a.parquet", {"seen": [True, False, None]})
        self.convert(path, hash_keys=True)
        from paramd import _columns
        salt = fnv(b"seen")
        expected = _columns.hash_texts([b"true", b"false", b""], salt)
        self.assertEqual(self.contents(self.out)["train-000000.records"],
                         expected.tobytes())

    def test_texts_are_their_bytes_also_if_they_are_no_utf8(self):
        import pyarrow as pa
        import pyarrow.parquet as pq
        texts = pa.array([b"\xff ", b"a", None], pa.binary())
        lists = pa.array([b"b|\xfe", None, b""], pa.binary())
        path = str(self.directory / "a.parquet")
        pq.write_table(pa.table({
            "item": texts.cast(pa.string(), safe=False),
            "many": lists.cast(pa.string(), safe=False)}), path)
        self.convert(path, features=[
            {"name": "keys", "columns": ["item", "many"], "hash_keys": True,
             "list_column": "many", "list_length": 2}])
        item, many = fnv(b"item"), fnv(b"many")
        expected = [fnv(b"\xff", item), fnv(b"b", many), fnv(b"\xfe", many),
                    fnv(b"a", item), 2 ** 64 - 1, 2 ** 64 - 1,
                    fnv(b"", item), 2 ** 64 - 1, 2 ** 64 - 1]
        found = np.frombuffer(self.contents(self.out)["train-000000.records"], np.uint64)
        self.assertEqual(list(map(int, found)), expected)

    def test_the_command_prints_the_input_that_reads_them(self):
        paths = self.write_log()
        done = subprocess.run(
            [sys.executable, "-m", "paramd.parquet", *paths, "--to", self.out,
             "--label=click", "--columns=price,age", "--missing=0", "--source=test",
             "--part_size=1kB"],
            env={**os.environ, "PYTHONPATH": os.path.abspath("python")},
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), {"input": {"test": {
            "directory": str(self.out),
            "records": {"files": ["test-*.records"],
                        "features": [{"name": "features", "dims": [2]},
                                     {"name": "label"}]}}}})
        sizes = [len(content) for content in self.contents(self.out).values()]
        self.assertEqual(sizes, [83 * 12, 83 * 12, 34 * 12])
        again = subprocess.run(
            [sys.executable, "-m", "paramd.parquet", *paths, "--to", self.out,
             "--label=click"],
            env={**os.environ, "PYTHONPATH": os.path.abspath("python")},
            capture_output=True, text=True, check=False)
        self.assertEqual((again.returncode, again.stdout), (2, ""))
        self.assertRegex(again.stderr, r"\Aparamd: [^\n]* is something else than an "
                         r"empty directory[^\n]*\n\Z")

    def test_a_directory_stands_for_the_files_in_it(self):
        paths = self.write_log()
        (self.directory / "_metadata.parquet").write_bytes(b"of another program")
        done = []
        self.convert(self.directory, columns=["price"],
                     progress=lambda rows, total: done.append((rows, total)))
        self.convert(paths, self.directory / "again", columns=["price"])
        self.assertEqual(self.contents(self.out),
                         self.contents(self.directory / "again"))
        # Row group by row group.
        self.assertEqual(done, [(rows, 200) for rows in
                                (40, 80, 120, 130, 170, 200)])

    def test_what_killed_conversions_left_is_removed_unless_it_is_held(self):
        path = self.write("a.parquet", {"price": [1.0, 2.0]})
        left, held, others = [self.directory / name for name in (
            ".out.0123456789abcdef", ".out.fedcba9876543210", ".out.of_another_program")]
        for directory in (left, held, others):
            directory.mkdir()
            (directory / "train-000000.records").write_bytes(b"some")
        at_work = os.open(held, os.O_RDONLY)
        self.addCleanup(os.close, at_work)
        fcntl.flock(at_work, fcntl.LOCK_EX)
        found = []

        def see(*_):
            """Another one at work finds this one's directory held."""
            for own in set(self.directory.glob(".out.*")) - {held, others}:
                fd = os.open(own, os.O_RDONLY)
                self.addCleanup(os.close, fd)
                with self.assertRaises(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(own)
        self.convert(path, columns=["price"], progress=see)
        self.assertEqual(len(found), 1)
        self.assertNotIn(left, found)
        self.assertEqual(set(self.directory.glob(".*")), {held, others})
        self.assertEqual(self.contents(held), {"train-000000.records": b"some"})
        fcntl.flock(at_work, fcntl.LOCK_UN)
        self.convert(path, columns=["price"], to=self.directory / "another")
        self.assertTrue(held.exists())
        (self.out / "train-000000.records").unlink()
        self.convert(path, columns=["price"])
        self.assertEqual(set(self.directory.glob(".*")), {others})

    def test_types_that_have_no_one_meaning_are_refused_by_name(self):
        import pyarrow as pa
        path = self.write("a.parquet", {
            "price": [decimal.Decimal("1.50")], "ratio": [0.5], "name": ["a"],
            "when": [datetime.datetime(2026, 1, 1)], "tags": [["a"]]},
            when=pa.timestamp("us"))
        for column, options, said in (
                ("price", {}, "is decimal128(3, 2); numbers are of integer, float"),
                ("price", {"hash_keys": True}, "is decimal128(3, 2), of which a value"),
                ("ratio", {"hash_keys": True}, "is double, of which a value has no one"),
                ("name", {}, "is string; numbers are of"),
                ("when", {"hash_buckets": 9}, "is timestamp[us], of which"),
                ("tags", {"hash_keys": True}, "is list<"),
                ("name", {"classes": 3}, "is string; numbers are of")):
            with self.subTest(column=column, **options):
                features = [{"name": "x", "columns": [column], **options}]
                self.assertIn(f"'{path}' row group 0: column '{column}' {said}",
                              self.refusal(path, features=features))
        features = [{"name": "x", "columns": ["ratio"], "hash_keys": True,
                     "list_column": "ratio"}]
        self.assertIn("is double; list_column is of lists",
                      self.refusal(path, features=features))

    def test_a_value_that_does_not_suit_is_named_with_its_place(self):
        path = self.write("a.parquet", {
            "age": [1, 2, 3, None], "price": [1.0, 2.0, 1e300, 3.0],
            "day": [0, 1, 2, 7], "kind": ["old", "new", "", "old"]}, row_group_size=2)
        where = f"'{path}' row group 1 row "
        for column, options, said in (
                ("age", {}, "1: column 'age' needs a number; found nothing; missing=0"),
                ("price", {}, "0: column 'price' needs a number that is finite in "
                 "float32; found 1e+300"),
                ("day", {"classes": 7}, "1: column 'day' needs a whole number from 0 to "
                 "6; found 7"),
                ("price", {"classes": 7}, "0: column 'price' needs a whole number")):
            with self.subTest(column=column, **options):
                features = [{"name": "x", "columns": [column], **options}]
                self.assertIn(where + said, self.refusal(path, features=features))
        self.assertIn(where + "1: column 'age' needs a number; found nothing",
                      self.refusal(path, label="age", columns=["day"]))
        self.assertIn(where + "0: column 'kind' has the class ''; known are old, new",
                      self.refusal(path, label="kind", class_names=["old", "new"],
                                   columns=["day"]))

    def test_what_makes_no_sense_is_refused(self):
        listed = {"columns": ["user", "ad"], "hash_keys": True, "list_column": "ad"}
        path = self.write("a.parquet", {"click": [1], "user": ["a"], "ad": ["b"]})
        for options, said in (
                ({"label": "buy"}, "has no column 'buy'; it has click, user, ad"),
                ({"label": "click", "columns": ["click"]}, "which is a label"),
                ({"log_columns": ["ad"]}, "log_columns is of CSV files alone"),
                ({"hash_key": True}, "hash_key is no key of csv"),
                ({"hash_keys": True, "hash_buckets": 5}, "hash_buckets and hash_keys"),
                ({"hash_keys": True, "missing": 0}, "missing of 'features' is of numbers"),
                ({"columns": ["ad", "ad"], "hash_keys": True}, "column 'ad' twice"),
                ({"columns": ["ad", "user"], "hash_keys": True, "list_column": "ad"},
                 "must be the last of the columns"),
                ({"features": [{"name": "group", "columns": ["ad"], "hash_keys": True}],
                  "group": "user"}, "two features are called 'group'"),
                ({"features": [{"name": "x", "columns": ["ad"]}], "hash_keys": True},
                 "features and hash_keys are both given"),
                ({"features": [{"columns": ["ad"]}]}, "a feature has a name"),
                ({"labels": ["click"], "label": "user"}, "labels and label are both"),
                ({"source": "both", "hash_keys": True}, "source is train or test"),
                ({**listed, "list_of": "shop"}, "list_of of 'features' is 'shop', and there "
                 "is no such column; there are click, user, ad"),
                ({"hash_keys": True, "list_of": "user"},
                 "list_of is 'user', but no list_column is given for 'features'"),
                ({**listed, "list_length": 0}, "list_length of 'features' must be from 1 to "
                 "65536; found 0"),
                ({"hash_keys": True, "list_length": 0}, "from 1 to 65536; found 0"),
                ({**listed, "list_length": 65537}, "from 1 to 65536; found 65537"),
                ({"label": "ad", "classes": 3, "class_names": ["a", "b"],
                  "columns": ["click"]}, "classes of 'ad' is 3, and 2 class_names are "
                 "given; leave one out"),
                ({"labels": [{"column": "ad", "classes": 1, "class_names": ["a", "b"]}],
                  "columns": ["click"]}, "classes of 'ad' is 1, and 2 class_names"),
                ({"label": "ad", "class_names": ["b", "b"], "columns": ["click"]},
                 "class_names of 'ad' has 'b' twice"),
                ({"label": "click", "group": "click", "hash_keys": True},
                 "group is 'click', which is a label"),
                ({"labels": ["ad", "click"], "weight": "click", "hash_keys": True},
                 "weight is 'click', which is a label"),
                ({"labels": ["click", {"column": "click", "name": "again"}],
                  "hash_keys": True}, "two of the labels are 'click'"),
                ({"features": {"name": "x", "columns": ["ad"]}}, "a list of objects"),
                ({"columns": ["click"], "missing": [0, 1]}, "2 numbers for 1 columns")):
            with self.subTest(options):
                self.assertIn(said, self.refusal(path, **options))
        self.assertIn("holds no row", self.refusal(
            self.write("empty.parquet", {"x": []}), columns=["x"], hash_keys=True))
        several = self.write("several.parquet", {"x": list(range(1000))}, 1000)
        with unittest.mock.patch("paramd.parquet._MOST_FILES", 999):
            self.assertIn("there would be 1000 files; at most 999 can be", self.refusal(
                several, columns=["x"], part_size=1))
        nothing = self.directory / "nothing"
        nothing.mkdir()
        self.assertIn(f"'{nothing}' has no file *.parquet",
                      self.refusal([path, nothing], label="click", hash_keys=True))
        # A link can't be replaced by a directory.
        link = self.directory / "link"
        link.symlink_to(nothing)
        self.assertIn("is something else than an empty directory",
                      self.refusal(path, to=link, label="click", hash_keys=True))
        other = self.write("other.parquet", {"click": [1], "user": ["a"]})
        self.assertIn(f"'{other}' has no column 'ad'; it has click, user",
                      self.refusal([path, other], label="click", hash_keys=True))
        text = self.directory / "text.parquet"
        text.write_text("click,user\n")
        self.assertIn(f"'{text}' can't be read: ", self.refusal(text, label="click"))
        self.assertIn("can't be read: ", self.refusal(
            self.directory / "nowhere.parquet", label="click"))

    def test_a_file_that_is_named_twice_is_refused(self):
        import paramd
        import paramd.parquet
        path = self.write("a.parquet", {"price": [1.0]})
        link = self.directory / "b.parquet"
        for files, said in (
                ([path, path], f"'{path}' is named twice: it would be read twice"),
                # By two patterns, one of them a directory.
                ([self.directory, path], f"'{path}' is named twice"),
                ([path, self.directory / "." / "a.parquet"], "is named twice"),
                ([path, f"{self.directory}/./a.parquet"],
                 f"'{path}' and '{self.directory}/./a.parquet' are one file: it would "
                 "be read twice")):
            with self.subTest(files):
                self.assertIn(said, self.refusal(files, columns=["price"]))
                with self.assertRaises(paramd.InvalidArgument):
                    paramd.parquet.Dataset(files, columns=["price"])
        link.symlink_to(path)
        self.assertIn(f"'{path}' and '{link}' are one file",
                      self.refusal(self.directory, columns=["price"]))

    def test_columns_of_test_data_are_named(self):
        path = self.write("a.parquet", {"click": [1], "age": [3.0], "price": [2.0]})
        for options in ({}, {"columns": []}, {"features": []}, {"name": "x"}):
            with self.subTest(options):
                self.assertIn(
                    "test data need columns, in the order that those of train have",
                    self.refusal(path, source="test", label="click", **options))
        self.assertTrue(self.refusal(path, source="test", label="click").endswith(
            f"'{path}' has age, price"))
        for number, options in enumerate((
                {"columns": ["price", "age"]},
                {"features": [{"name": "x", "columns": ["price", "age"]}]})):
            to = self.directory / str(number)
            self.convert(path, to, source="test", label="click", **options)
            self.assertEqual(self.contents(to), {
                "test-000000.records": np.array([2, 3, 1], "<f4").tobytes()})
        # Without names those to train on have the order of their file.
        self.convert(path, label="click")
        self.assertEqual(self.contents(self.out), {
            "train-000000.records": np.array([3, 2, 1], "<f4").tobytes()})

    def test_row_groups_are_leased(self):
        import paramd.parquet
        paths = self.write_log()
        clicks = paramd.parquet.Dataset(
            paths, features=[{"name": "numbers", "columns": ["price", "age"],
                              "missing": 0},
                             {"name": "keys", "columns": ["user"], "hash_keys": True}],
            label="click", seed=3)
        self.assertEqual(clicks.examples, 200)
        self.assertEqual(clicks.counts, [40, 40, 40, 10, 40, 30])
        job = {"batch_per_replica": 10}
        clicks.settings(job)
        self.assertEqual(job["portion_batches"], 3)  # 33 rows are a mean row group.
        table = rows(range(200))
        orders = set()
        for epoch in (1, 2, 3):
            found = [example for begin in range(0, 200, 25)
                     for example in clicks.read(epoch, np.arange(begin, begin + 25))]
            prices = [float(numbers[0]) for numbers, _, _ in found]
            self.assertEqual(sorted(prices), sorted(table["price"]))
            orders.add(tuple(prices))
            for numbers, keys, click in found[:50]:
                i = table["price"].index(float(numbers[0]))
                self.assertEqual(float(numbers[1]), table["age"][i] or 0)
                self.assertEqual(int(keys[0]) % 2 ** 64,
                                 fnv(str(table["user"][i]).encode(), fnv(b"user")))
                self.assertEqual(click, table["click"][i])
        self.assertGreater(len(orders), 1)


if __name__ == "__main__":
    unittest.main()
