#ifndef PARAMD_TESTS_SIM_STORAGE_H_
#define PARAMD_TESTS_SIM_STORAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "checkpoint/trained_tensors.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/message.h"
#include "tests/sim/simulation.h"

namespace paramd {

// What ended with this status.
IoResult Failed(absl::Status status);

// The shared storage of a job, in maps: the configuration log and the
// checkpoints. It outlives crashes of nodes and does what storage.proto says:
// servers restore through checkpoint/'s reader, and ReadVariable, which tells
// witnesses what was written, reads by itself.
//
// Not thread-safe; outlives the simulations that it serves.
class SimStorage {
 public:
  // One kind of work, how long it takes at most, and how it is done.
  struct Work {
    const google::protobuf::Descriptor* type;
    absl::Duration longest;
    Simulation::IoHandler handler;
  };
  // The storage work of a coordinator, and of a server.
  std::vector<Work> CoordinatorWorks();
  std::vector<Work> ShardWorks();
  // Does it for node `self`.
  void ServeCoordinator(PeerId self, Simulation* simulation);
  void ServeShard(PeerId self, Simulation* simulation);

  const std::vector<v1::LogEntry>& log() const { return log_; }
  // The first term whose coordinator took over servers that keep what they
  // hold. From then on an open push, whose session ended with that, may have
  // been done twice in some blocks.
  absl::optional<uint64_t> first_take_over() const;
  // Every checkpoint ever committed, in order: deleted ones can be read here
  // too, though not by a server.
  const std::vector<v1::Manifest>& committed() const { return committed_; }
  const std::vector<v1::WriteResult>& results() const { return results_; }
  bool finished() const { return finished_; }

  // From now on nothing can be written, or all can again. What is under way is
  // left torn.
  void SetFull(bool full);
  // From now on each work is done and its result lost with this chance: the
  // process hears that it failed.
  void LoseResults(double chance, RandomStream* random);
  // A server died while it wrote: the file is there, and its end is not.
  void Tear(const v1::WriteShard& request);
  // Where a job with warm_start begins, as long as it has no checkpoint.
  void StartFrom(std::unique_ptr<TrainedTensors> trained);
  // From now on an entry of the log takes up to so long to be written, for the
  // processes that are served from now on.
  void SlowLog(absl::Duration longest) { longest_append_ = longest; }
  // The next server that writes its shard finds no space for it.
  void FailNextShard() { fail_next_shard_ = true; }
  // What of the work asked for must never be: a checkpoint is deleted that the
  // log does not have as retired, or the newest.
  const absl::Status& misuse() const { return misuse_; }
  // From now on a server that writes its shard does not see the directory, with
  // this chance.
  void Blind(double chance, RandomStream* random);
  // Now and then a file of a checkpoint that is about to be restored turns out
  // damaged: a bit of it has turned, or its end is gone. Only if an older one
  // is whole and stays, so the job can go on.
  struct Damage {
    double when_found = 0;  // Chance, when a coordinator finds a checkpoint.
    double when_read = 0;   // When a server alone begins to read one.
    RandomStream* random = nullptr;
  };
  void Damaging(const Damage& damage) { damage_ = damage; }
  // From now on a checkpoint can't be read at the moment, with this chance each
  // time somebody looks at it or reads a piece of it. Nothing is wrong with it.
  void Unreadable(double chance, RandomStream* random);
  // How often.
  uint64_t unread() const { return unread_; }
  // Checkpoints of which a file was damaged, and reads that found it: all, and
  // those of servers that come back while the others run.
  uint64_t damaged() const { return damaged_.size(); }
  uint64_t damage_found() const { return damage_found_; }
  uint64_t damage_found_alone() const { return found_alone_; }
  // Files that came through the coordinator.
  uint64_t fetched() const { return fetched_files_; }
  // Slices that came through the coordinator.
  uint64_t reads_for_servers() const { return reads_for_servers_; }
  // Reads of what a job begins with, by servers and for them.
  uint64_t trained_reads() const { return trained_reads_; }
  // Reads of checkpoints that have a base.
  uint64_t based_reads() const { return based_reads_; }
  // Whether it was ever full or lost results.
  bool was_bad() const { return was_bad_; }
  // The directory of a committed checkpoint.
  static std::string PathOf(const v1::SnapshotNumber& snapshot);

  // A variable's values, or those of a slot of it if `slot` is not empty, out
  // of the checkpoint with this manifest, as they were written. kDataLoss
  // naming what is missing.
  absl::StatusOr<std::vector<float>> ReadVariable(
      const v1::Manifest& manifest, const std::string& variable,
      const std::string& slot) const;
  // The same of a slot that has an integer for each row.
  absl::StatusOr<std::vector<uint64_t>> ReadRowNumbers(
      const v1::Manifest& manifest, const std::string& variable,
      const std::string& slot) const;

 private:
  using Number = std::pair<uint64_t, uint64_t>;  // (term, counter)
  struct Tensor {
    std::string bytes;
    std::vector<uint64_t> shape;
    v1::DType dtype = v1::FLOAT32;
  };
  using Tensors = std::map<std::string, Tensor>;  // By name.
  using Files = std::map<std::string, std::map<std::string, Tensors>>;

  template <typename Request, typename Function>
  Work MakeWork(absl::Duration longest, Function work);

  static uint32_t CrcOf(const Tensors& tensors);
  IoResult ReadLog() const;
  IoResult AppendLog(const v1::AppendLog& request);
  IoResult PrepareCheckpoint(const v1::PrepareCheckpoint& request);
  IoResult WriteShard(const v1::WriteShard& request,
                      const BufferChain& payload);
  IoResult WriteFetched(const v1::WriteFetched& request,
                        const BufferChain& payload);
  IoResult CommitCheckpoint(const v1::CommitCheckpoint& request);
  IoResult DeleteCheckpoints(const v1::DeleteCheckpoints& request);
  // Whether the file, if it has a base, finds the one that it had then.
  absl::Status CheckBase(const v1::ShardFile& file) const;
  IoResult FindCheckpoint(const v1::FindCheckpoint& request);
  IoResult ReadSlices(const v1::ReadSlices& request);
  IoResult ReadWarmStart(const v1::ReadWarmStart& request);
  // Whether this server does not see the directory now.
  bool IsBlind();

  // Whether this checkpoint can't be read now.
  bool IsUnreadable();
  // Damages the checkpoint with this chance, if an older one is left.
  void MayDamage(const v1::Manifest& manifest, double chance);
  bool IsWhole(const v1::Manifest& manifest) const;
  // What lies there now under that name; null: nothing.
  const Tensors* FileNow(const std::string& directory,
                         const std::string& name) const;
  // Whether the file that `expected` says so of has its size, and its checksum
  // if `sum`; of a base the same. kDataLoss naming it if not.
  absl::Status CheckFile(const std::string& path, const v1::ShardFile& expected,
                         bool sum) const;
  // The files of the reader's share, and those that it reads from if alone.
  absl::Status CheckShare(const v1::ReadSlices& request,
                          const v1::Manifest& manifest) const;

  // What is read for servers: of the files as they are now.
  class Source;
  // As it was written: a slice's values, or those of a slot: the file's own, or
  // the base's and what has changed since.
  absl::StatusOr<std::string> ReadSlice(const std::string& path,
                                        const v1::ShardFile& file,
                                        const v1::SavedSlice& saved,
                                        const std::string& slot, uint64_t bytes,
                                        uint64_t block_bytes) const;
  // All of a variable's slices. `by_row`: an integer for each row.
  absl::StatusOr<std::string> ReadSlot(const v1::Manifest& manifest,
                                       const std::string& variable,
                                       const std::string& slot,
                                       bool by_row) const;

  std::vector<v1::LogEntry> log_;
  std::vector<v1::Manifest> committed_;
  std::vector<v1::WriteResult> results_;
  absl::Status misuse_;
  bool finished_ = false;
  bool full_ = false;
  bool was_bad_ = false;
  bool fail_next_shard_ = false;
  absl::Duration longest_append_ = absl::Milliseconds(50);
  double blind_ = 0;
  RandomStream* blind_random_ = nullptr;
  std::map<std::string, std::string> fetching_;  // By path.
  uint64_t fetched_files_ = 0;
  uint64_t reads_for_servers_ = 0;
  std::unique_ptr<TrainedTensors> trained_;
  uint64_t trained_reads_ = 0;
  uint64_t based_reads_ = 0;
  double lose_result_ = 0;
  RandomStream* random_ = nullptr;
  // By path: a directory prepared or committed, then by file.
  Files files_;
  std::map<Number, v1::Manifest> visible_;
  Damage damage_;
  double unreadable_ = 0;
  RandomStream* unreadable_random_ = nullptr;
  uint64_t unread_ = 0;
  Files damaged_;               // Files that are not what was written any more.
  std::set<Number> to_retire_;  // That some commit said need not stay.
  uint64_t damage_found_ = 0;
  uint64_t found_alone_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_STORAGE_H_
