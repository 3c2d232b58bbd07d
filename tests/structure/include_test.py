"""The source tree keeps to the map of rooms, and the check notices if not."""

import os
import tempfile
import unittest

from tests.structure import rooms


def source_root():
    """The tree itself: the test's files are links into it."""
    return os.path.dirname(os.path.realpath("WORKSPACE"))


class SourceTreeTest(unittest.TestCase):

    def setUp(self):
        self.tree = rooms.Tree(source_root())

    def test_sources_were_read(self):
        for room in ("base", "tensor", "proto"):
            self.assertTrue(
                any(p.startswith(room + "/") for p in self.tree.texts),
                f"no source of {room}/ below {self.tree.root}")

    def test_the_includes_were_read(self):
        with open(os.path.join(self.tree.root, "tensor/core.h"),
                  encoding="utf-8") as file:
            paths = [i.path for i in rooms.includes_of(file.read())]
        self.assertIn("base/time.h", paths)

    def test_the_tree_keeps_to_the_map(self):
        found = self.tree.violations()
        self.assertFalse(found, "\n" + "\n".join(found))


class PlantedTree(unittest.TestCase):
    """Each case plants one file or two in an otherwise correct tree."""


    def violations_in(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return rooms.Tree(root).violations()

    def assert_refused(self, files, *words):
        found = self.violations_in(files)
        self.assertTrue(found, f"not noticed: {files}")
        for word in words:
            self.assertIn(word, found[0])


class ArrowTest(PlantedTree):

    def test_an_arrow_of_the_map_is_allowed(self):
        self.assertEqual([], self.violations_in({
            "worker/a.cc": '#include "client/b.h"\n#include <thread>\n',
            "client/b.h": '#include "base/time.h"\n'}))

    def test_an_arrow_against_the_map_is_refused(self):
        self.assert_refused({"base/a.h": '#include "tensor/buffer.h"\n'},
                            "base/a.h:1", "base/ may not include tensor/")
        self.assert_refused({"client/a.h": '\n#include "server/shard.h"\n'},
                            "client/a.h:2")
        self.assert_refused({"net/a.h": '#include <server/shard.h>\n'},
                            "net/a.h:1")
        self.assert_refused({"checkpoint/a.cc": '#include "net/channel.h"\n'})

    def test_a_generated_header_counts_as_its_room(self):
        self.assert_refused(
            {"tensor/a.h": '#include "proto/paramd/v1/data.pb.h"\n'})

    def test_an_include_in_a_proto_file_is_read(self):
        self.assert_refused(
            {"proto/paramd/v1/a.proto": 'import "config/b.proto";\n'})

    def test_a_path_that_does_not_start_at_the_top_is_refused(self):
        self.assert_refused({"net/a.cc": '#include "b.h"\n', "net/b.h": ""},
                            "from the top")
        self.assertEqual([], self.violations_in(
            {"examples/custom_model/a.cc": '#include "b.h"\n',
             "examples/custom_model/b.h": ""}))

    def test_abseils_locks_are_refused_everywhere_but_in_base(self):
        self.assert_refused(
            {"net/a.cc": '#include "absl/synchronization/mutex.h"\n'},
            "base/mutex.h")
        self.assertEqual([], self.violations_in(
            {"base/a.cc": '#include "absl/synchronization/mutex.h"\n'}))

    def test_a_worker_draws_nothing_but_the_order_of_examples(self):
        for header in ('"base/random.h"', "<random>", '"absl/random/random.h"'):
            self.assert_refused(
                {"compute/model/dropout.cc": f"#include {header}\n"},
                "compute/model/dropout.cc:1", "a worker has no state")
        self.assertEqual([], self.violations_in(
            {path: '#include "base/random.h"\n' for path in rooms.MAY_DRAW} |
            {"worker/a_test.cc": '#include "base/random.h"\n',
             "worker/testing/b.h": '#include "base/random.h"\n'}))

    def test_a_name_at_the_top_that_is_not_on_the_map_is_refused(self):
        self.assert_refused({"util/a.h": ""}, "util")
        self.assert_refused({"a.cc": "", "base/b.h": ""}, "a.cc")

    def test_what_git_ignores_at_the_top_is_not_read(self):
        self.assertEqual([], self.violations_in({
            ".gitignore": "/runs/\n/bazel-*\n",
            "runs/1/a.h": '#include "x/y.h"\n', "bazel-bin/a.h": ""}))


class CoreTest(PlantedTree):

    def test_a_core_may_include_what_has_no_machine_in_it(self):
        for core in rooms.CORES:
            self.assertEqual([], self.violations_in({
                core + "/a.cc": f'#include "{core}/a.h"\n'
                '#include <atomic>\n#include <vector>\n'
                '#include "absl/time/time.h"\n#include "gtest/gtest.h"\n'
                '#include "base/time.h"\n#include "tensor/core.h"\n'
                '#include "proto/paramd/v1/data.pb.h"\n'
                '#include "config/cluster_spec.h"\n'
                '// std::thread, grpc::Status and absl::Now() are words here\n'
                'const char* kText = "std::mutex";\n',
                core + "/a.h": ""}))

    def test_a_core_that_includes_grpc_threads_locks_files_or_clocks_is_refused(
            self):
        for header in ("<grpcpp/grpcpp.h>", '"grpcpp/generic/x.h"',
                       "<grpc/grpc.h>", "<thread>", "<mutex>",
                       "<shared_mutex>", "<condition_variable>", "<future>",
                       "<fstream>", "<cstdio>", "<stdio.h>", "<filesystem>",
                       "<fcntl.h>", "<unistd.h>", "<sys/stat.h>", "<chrono>",
                       "<ctime>", "<time.h>", "<pthread.h>", "<random>",
                       "<iostream>", '"absl/time/clock.h"',
                       '"absl/synchronization/mutex.h"',
                       '"base/mutex.h"', '"base/clock.h"', '"base/log.h"',
                       '"base/chrome_trace.h"', '"base/print.h"',
                       '"base/resource_limits.h"',
                       '"spdlog/spdlog.h"', '"net/channel.h"',
                       '"checkpoint/manifest.h"', '"cblas.h"'):
            for core in rooms.CORES:
                with self.subTest(core=core, header=header):
                    self.assert_refused(
                        {core + "/deep/a.h": f"#  include {header}\n"},
                        core + "/deep/a.h")

    def test_a_core_does_not_reach_them_through_a_header(self):
        self.assert_refused(
            {"server/core/a.cc": '#include "tensor/b.h"\n',
             "tensor/b.h": '#include "base/c.h"\n',
             "base/c.h": "#include <thread>\n"},
            "server/core/a.cc", "<thread>"[1:-1], "through base/c.h")

    def test_a_core_does_not_use_them_without_an_include(self):
        for text in ("auto t = std::chrono::steady_clock::now();",
                     "absl::Time t = absl::Now();", "std::mutex mu;",
                     "grpc::Status s;", "FILE* f = fopen(name, mode);",
                     "std::ofstream out;"):
            with self.subTest(text=text):
                self.assert_refused({"client/core/a.cc": f"\n{text}\n"},
                                    "client/core/a.cc:2")

    def test_a_core_does_not_include_its_own_shell(self):
        self.assert_refused(
            {"server/core/a.h": '#include "server/service.h"\n'},
            "server/core/ may include only")

    def test_one_core_does_not_include_another_beside_it(self):
        self.assert_refused(
            {"client/core/a.h": '#include "coordinator/core/b.h"\n'})

    def test_the_workers_core_may_include_the_cores_below_it(self):
        self.assertEqual([], self.violations_in(
            {"worker/core/a.h": '#include "client/core/b.h"\n'
                                '#include "coordinator/core/b.h"\n'}))
        self.assert_refused(
            {"worker/core/a.h": '#include "server/core/b.h"\n'})
