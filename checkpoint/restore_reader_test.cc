#include "checkpoint/restore_reader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/storage.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

using testing::CommitIncrement;
using testing::CommitSample;
using testing::CutForServers;
using ::testing::HasSubstr;
using testing::SampleBytes;
using testing::SampleSlice;
using testing::SampleVariable;

constexpr uint64_t kSliceBytes = 400;

// This machine's files, with a count of the bytes that are read of them.
class CountingStorage : public Storage {
 public:
  static constexpr char kScheme[] = "counting://";

  absl::StatusOr<std::unique_ptr<Reader>> Open(
      const std::string& path) override {
    auto reader = PosixStorage().Open(Strip(path));
    if (!reader.ok()) return reader.status();
    return std::make_unique<CountingReader>(*std::move(reader), &bytes_);
  }
  absl::StatusOr<std::unique_ptr<Writer>> Create(
      const std::string& path) override {
    return PosixStorage().Create(Strip(path));
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    return PosixStorage().List(Strip(path));
  }
  bool IsDirectory(const std::string& path) override {
    return PosixStorage().IsDirectory(Strip(path));
  }
  absl::Status MakeDirectory(const std::string& path) override {
    return PosixStorage().MakeDirectory(Strip(path));
  }
  absl::Status Sync(const std::string& path) override {
    return PosixStorage().Sync(Strip(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return PosixStorage().Rename(Strip(from), Strip(to));
  }
  absl::Status Remove(const std::string& path) override {
    return PosixStorage().Remove(Strip(path));
  }

  uint64_t TakeBytes() { return std::exchange(bytes_, 0); }

 private:
  class CountingReader : public Reader {
   public:
    CountingReader(std::unique_ptr<Reader> reader, uint64_t* bytes)
        : reader_(std::move(reader)), bytes_(bytes) {}
    absl::Status ReadAt(uint64_t offset,
                        absl::Span<std::byte> out) const override {
      *bytes_ += out.size();
      return reader_->ReadAt(offset, out);
    }
    uint64_t size() const override { return reader_->size(); }

   private:
    const std::unique_ptr<Reader> reader_;
    uint64_t* const bytes_;
  };

  static std::string Strip(const std::string& path) {
    return path.substr(sizeof(kScheme) - 1);
  }

  uint64_t bytes_ = 0;
};

CountingStorage& Counting() {
  static CountingStorage* const storage = [] {
    auto* const made = new CountingStorage();
    AddStorage("counting", made);
    return made;
  }();
  return *storage;
}

// One reader for each server, each of which asks for so many slices at a time.
struct Restore {
  std::string path;
  uint32_t servers = 1;
  size_t at_once = 2;
  bool alone = false;
  bool in_place = false;  // Into the memory of blocks.
};

constexpr uint64_t kBlockBytes = 100;

// Of what a server with these slices has.
BufferChain MemoryOf(const v1::ReadSlices& request) {
  BufferChain memory;
  for (const v1::ReadSlices::Want& want : request.slices()) {
    uint64_t left = (want.row_end() - want.row_begin()) * sizeof(float);
    for (int d = 1; d < want.shape_size(); ++d) left *= want.shape(d);
    for (uint64_t bytes = 0; left > 0; left -= bytes) {
      bytes = std::min(left, kBlockBytes);
      memory.push_back(Buffer::Allocate(bytes));
      memory.push_back(Buffer::Allocate(request.slots_size() * bytes));
    }
  }
  return memory;
}

// What such memory holds, in the order in which it was asked for.
std::string InOrder(const v1::ReadSlices& request, const BufferChain& memory) {
  std::string bytes;
  auto buffer = memory.begin();
  for (const v1::ReadSlices::Want& want : request.slices()) {
    uint64_t left = (want.row_end() - want.row_begin()) * sizeof(float);
    for (int d = 1; d < want.shape_size(); ++d) left *= want.shape(d);
    std::vector<std::string> slots(request.slots_size());
    while (left > 0) {
      bytes += FlattenForTest({*buffer});
      const size_t size = buffer->size();
      left -= size;
      const std::string both = FlattenForTest({*++buffer});
      for (size_t s = 0; s < slots.size(); ++s) {
        slots[s] += both.substr(s * size, size);
      }
      ++buffer;
    }
    for (const std::string& slot : slots) bytes += slot;
  }
  return bytes;
}

class RestoreReaderTest : public ::testing::Test {
 protected:
  RestoreReaderTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/restore_reader/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    const auto path = CommitSample(root_, variables_, slots_, 1, 5, 10,
                                   /*servers=*/3, kSliceBytes);
    EXPECT_TRUE(path.ok()) << path.status();
    path_ = *path;
  }

  // What server `server` gets, or what its reader fails with.
  absl::StatusOr<std::string> Read(const Restore& restore, uint32_t server) {
    std::vector<SampleSlice> own;
    for (const SampleSlice& slice :
         CutForServers(variables_, restore.servers, kSliceBytes)) {
      if (slice.server == server) own.push_back(slice);
    }
    RestoreReader reader;
    std::string bytes;
    for (size_t at = 0; at < own.size(); at += restore.at_once) {
      v1::ReadSlices request;
      request.set_path(restore.path);
      request.set_first(at == 0);
      request.set_last(at + restore.at_once >= own.size());
      request.mutable_check()->set_index(server);
      request.mutable_check()->set_of(restore.servers);
      request.mutable_check()->set_alone(restore.alone);
      for (const std::string& slot : slots_) request.add_slots(slot);
      for (size_t s = at; s < std::min(at + restore.at_once, own.size()); ++s) {
        v1::ReadSlices::Want* const want = request.add_slices();
        want->set_variable(own[s].variable->name());
        *want->mutable_shape() = own[s].variable->shape();
        want->set_row_begin(own[s].rows.begin);
        want->set_row_end(own[s].rows.end);
      }
      v1::ReadSlicesResult result;
      BufferChain payload;
      if (restore.in_place) payload = MemoryOf(request);
      const std::byte* const memory =
          payload.empty() ? nullptr : payload[0].bytes().data();
      const absl::Status read = reader.Read(request, &result, &payload);
      if (!read.ok()) return read;
      if (restore.in_place && !payload.empty()) {
        EXPECT_EQ(payload[0].bytes().data(), memory);
        bytes += InOrder(request, payload);
        continue;
      }
      EXPECT_EQ(result.manifest().run_id(), ReadManifest(path_)->run_id());
      bytes += FlattenForTest(payload);
    }
    return bytes;
  }

  absl::Status ReadAll(const Restore& restore) {
    absl::Status status;
    for (uint32_t server = 0; server < restore.servers; ++server) {
      status.Update(Read(restore, server).status());
    }
    return status;
  }

  std::string Expected(uint32_t servers, uint32_t server) {
    std::string bytes;
    for (const SampleSlice& slice :
         CutForServers(variables_, servers, kSliceBytes)) {
      if (slice.server != server) continue;
      bytes += FlattenForTest({SampleBytes(*slice.variable, "", slice.rows)});
      for (const std::string& slot : slots_) {
        bytes +=
            FlattenForTest({SampleBytes(*slice.variable, slot, slice.rows)});
      }
    }
    return bytes;
  }

  static void FlipBit(const std::string& path, uint64_t bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(bit / 8);
    const int byte = file.get();
    file.seekp(bit / 8);
    file.put(static_cast<char>(byte ^ (1 << bit % 8)));
  }

  // Every so many bytes of a shard file one bit is turned, over all of it: no
  // number of servers takes that for good.
  void ExpectEveryFlipFound(const std::string& directory,
                            const std::string& restored) {
    const std::vector<std::string> names = *ListDirectory(directory);
    for (const std::string& name : names) {
      if (!absl::EndsWith(name, ".safetensors")) continue;
      const std::string file = absl::StrCat(directory, "/", name);
      const uint64_t bytes = std::filesystem::file_size(file);
      for (uint64_t at = 0; at < bytes; at += 37) {
        FlipBit(file, at * 8 + at % 8);
        for (const uint32_t servers : {1, 3, 4}) {
          const absl::Status read = ReadAll({restored, servers});
          EXPECT_TRUE(absl::IsDataLoss(read))
              << name << " byte " << at << " on " << servers << ": " << read;
          const absl::Status in_place =
              ReadAll({restored, servers, 2, false, true});
          EXPECT_TRUE(absl::IsDataLoss(in_place))
              << name << " byte " << at << " on " << servers << ": "
              << in_place;
        }
        FlipBit(file, at * 8 + at % 8);
      }
    }
    EXPECT_TRUE(ReadAll({restored, 3}).ok());
  }

  const std::string root_;
  const std::vector<v1::Variable> variables_ = {
      SampleVariable("layer/kernel", {37, 11}), SampleVariable("bias", {130}),
      SampleVariable("temperature", {})};
  const std::vector<std::string> slots_ = {"momentum", "variance"};
  std::string path_;
};

TEST_F(RestoreReaderTest, Promise3_AnyNumberOfServersReadsWhatThreeWrote) {
  for (const uint32_t servers : {1, 2, 3, 5}) {
    for (const size_t at_once : {1, 3, 100}) {
      for (uint32_t server = 0; server < servers; ++server) {
        const auto read = Read({path_, servers, at_once}, server);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_TRUE(*read == Expected(servers, server)) << servers << server;
      }
    }
  }
}

TEST_F(RestoreReaderTest, Promise3_WhatIsReadIntoBlocksIsTheSame) {
  for (const uint32_t servers : {1, 2, 3, 5}) {
    for (const size_t at_once : {1, 3, 100}) {
      for (uint32_t server = 0; server < servers; ++server) {
        const auto read = Read({path_, servers, at_once, false, true}, server);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_TRUE(*read == Expected(servers, server)) << servers << server;
      }
    }
  }
}

TEST_F(RestoreReaderTest, Promise3_AnyFlippedBitIsFoundByWhoeverRestores) {
  ExpectEveryFlipFound(path_, path_);
}

TEST_F(RestoreReaderTest, Promise3_AnyFlippedBitOfABaseIsFoundToo) {
  const auto path = CommitIncrement(
      path_, [](const v1::SavedSlice& slice, uint64_t /*block*/) {
        return slice.variable() == "bias";
      });
  ASSERT_TRUE(path.ok()) << path.status();
  ExpectEveryFlipFound(*path, *path);
  ExpectEveryFlipFound(path_, *path);
}

TEST_F(RestoreReaderTest, OntoTheSameServersEveryByteIsReadOnce) {
  Counting();
  const std::string counted = CountingStorage::kScheme + path_;
  const v1::Manifest manifest = *ReadManifest(path_);
  for (uint32_t server = 0; server < 3; ++server) {
    Counting().TakeBytes();
    ASSERT_TRUE(Read({counted, 3}, server).ok());
    // The numbers, the header twice (to know where they are, and for the
    // checksum), the manifest.
    uint64_t data = 0;
    for (const v1::SavedSlice& slice : manifest.files(server).slices()) {
      data +=
          3 * SampleBytes(*std::find_if(variables_.begin(), variables_.end(),
                                        [&](const v1::Variable& v) {
                                          return v.name() == slice.variable();
                                        }),
                          "", {slice.row_begin(), slice.row_end()})
                  .size();
    }
    const uint64_t header = manifest.files(server).bytes() - data;
    const uint64_t texts =
        std::filesystem::file_size(path_ + "/manifest.json") +
        std::filesystem::file_size(path_ + "/manifest.crc32c");
    EXPECT_EQ(Counting().TakeBytes(), data + 2 * header + texts);
  }
}

TEST_F(RestoreReaderTest, WhatIsDamagedIsNamed) {
  FlipBit(path_ + "/ps-00002-of-00003.safetensors", 8 * 2000);
  EXPECT_TRUE(Read({path_, 3}, 0).ok()) << "that is another server's to check";
  const absl::Status read = Read({path_, 3}, 1).status();
  EXPECT_THAT(std::string(read.message()),
              HasSubstr("ps-00002-of-00003.safetensors' has the crc32c "));
}

// Onto four servers what three wrote: the rows of most come from files that are
// others' to check.
TEST_F(RestoreReaderTest, Promise3_WhoComesBackAloneChecksAllThatItReads) {
  const auto base = CommitIncrement(
      path_, [](const v1::SavedSlice& slice, uint64_t /*block*/) {
        return slice.variable() == "bias";
      });
  ASSERT_TRUE(base.ok()) << base.status();
  int unseen = 0;
  for (const std::string& restored : {path_, *base}) {
    for (uint32_t server = 0; server < 4; ++server) {
      const std::string right = *Read({restored, 4, 2, true}, server);
      for (const char* name :
           {"ps-00001-of-00003.safetensors", "ps-00002-of-00003.safetensors",
            "ps-00003-of-00003.safetensors"}) {
        const std::string file = absl::StrCat(path_, "/", name);
        for (uint64_t at = 0; at < std::filesystem::file_size(file); at += 97) {
          FlipBit(file, at * 8 + at % 8);
          const auto shared = Read({restored, 4, 2, false}, server);
          const bool in_place = at % 2 == 0;
          const auto alone = Read({restored, 4, 2, true, in_place}, server);
          FlipBit(file, at * 8 + at % 8);
          EXPECT_TRUE(absl::IsDataLoss(alone.status()) || *alone == right)
              << name << " byte " << at;
          unseen += shared.ok() && *shared != right ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(unseen, 0) << "the others' shares are not what is tested";
}

TEST_F(RestoreReaderTest, WithoutAShareNothingIsChecked) {
  FlipBit(path_ + "/ps-00002-of-00003.safetensors", 8 * 2000);
  RestoreReader reader;
  v1::ReadSlices request;
  request.set_path(path_);
  request.set_first(true);
  request.set_last(true);
  v1::ReadSlicesResult result;
  BufferChain payload;
  EXPECT_TRUE(reader.Read(request, &result, &payload).ok());
}

// An older one may be there.
TEST_F(RestoreReaderTest, ACheckpointThatIsGoneIsNamed) {
  const absl::Status read = ReadAll({root_ + "/gone", 1});
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr("/gone/manifest.json'"));
}

TEST_F(RestoreReaderTest, AFileThatIsGoneSinceItWasListedIsNamed) {
  std::filesystem::remove(path_ + "/ps-00002-of-00003.safetensors");
  const absl::Status read = ReadAll({path_, 3});
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()),
              HasSubstr("/ps-00002-of-00003.safetensors': no such file"));
}

// Of another checkpoint it would be no other.
TEST_F(RestoreReaderTest, WhatIsAskedWronglyIsNoDamage) {
  RestoreReader reader;
  v1::ReadSlices request;
  request.set_path(path_);
  request.set_first(true);
  request.add_slices()->set_variable("another");
  v1::ReadSlicesResult result;
  BufferChain payload;
  EXPECT_TRUE(absl::IsInvalidArgument(reader.Read(request, &result, &payload)));
}

TEST_F(RestoreReaderTest, WhatTheFilesListAsLostComesWithTheirSlices) {
  v1::LostPushes lost;
  lost.set_worker(4);
  lost.set_from(7);
  lost.set_to(9);
  const auto path = CommitSample(root_, variables_, slots_, 2, 1, 10,
                                 /*servers=*/1, kSliceBytes, {lost});
  ASSERT_TRUE(path.ok()) << path.status();
  RestoreReader reader;
  v1::ReadSlices request;
  request.set_path(*path);
  request.set_first(true);
  v1::ReadSlices::Want* const want = request.add_slices();
  want->set_variable("bias");
  want->add_shape(130);
  want->set_row_end(2);
  v1::ReadSlicesResult result;
  BufferChain payload;
  ASSERT_TRUE(reader.Read(request, &result, &payload).ok());
  ASSERT_EQ(result.manifest().files_size(), 1);
  ASSERT_EQ(result.manifest().files(0).lost_size(), 1);
  EXPECT_EQ(result.manifest().files(0).lost(0).to(), 9u);
  EXPECT_EQ(result.manifest().files(0).slices(0).variable(), "bias");
}

}  // namespace
}  // namespace paramd
