#ifndef PARAMD_TESTS_SIM_CONTENT_MODEL_H_
#define PARAMD_TESTS_SIM_CONTENT_MODEL_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "server/core/optimizer.h"
#include "tensor/number_format.h"
#include "tests/sim/answered_blocks.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/key_story.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/saved_rows.h"
#include "tests/sim/simulation_watcher.h"
#include "tests/sim/storage.h"

namespace paramd {

// What every block of every server must contain, by what the servers themselves
// said of each block of each push: a server generation begins with what its
// checkpoint contained (or nothing), and every APPLIED adds one push.
//
// So three stories are told of a block, and must be one: the values (each sum
// of integer gradients says which pushes are in it), the counts and records
// beside it, and the answers to pushes. The model fails the run if
//  - a push is applied twice to one content of a block, or said to be in where
//    it is not, or applied for a session that the server's configuration does
//    not list;
//  - a pull's value, version or "unchanged" is not what the story says;
//  - a checkpoint's values, slots, counts, records or partial pushes are not
//    those of the pushes before its cut, in the order in which they came, that
//    the server had when it said that it was sealed. Which push is before the
//    cut its stamp says, and SessionModel that the stamp is right;
//  - two processes answer as one server generation, or one life names two
//    contents.
//
// Not thread-safe. Job, ledger and storage outlive it.
class ContentModel {
 public:
  // How often what happened: a model that never met the rare case proves
  // nothing about it.
  struct Counts {
    uint64_t chunks_applied = 0;  // With a block that was not in yet.
    uint64_t blocks_applied = 0;
    uint64_t blocks_repeated = 0;
    uint64_t blocks_superseded = 0;
    uint64_t blocks_unchanged = 0;
    uint64_t partial_in_manifests = 0;
    uint64_t unfinished_in_manifests = 0;
    uint64_t gaps = 0;  // A push later than the next one of its session.
    // Blocks, by how a snapshot's copy of them came to be.
    uint64_t forked_by_stamp = 0;
    uint64_t forked_at_seal = 0;
    // Blocks of pushes before the cut that came when the block was forked.
    uint64_t applied_to_both = 0;
    uint64_t forks_given_up = 0;
    // Blocks of pushes with the stamp of a snapshot that is below a later one
    // that was open here.
    uint64_t late_stamps = 0;
    // Parts of blocks of keyed variables whose keys got rows, that lost theirs
    // to others, or whose gradient was dropped.
    uint64_t parts_created = 0;
    uint64_t parts_evicted = 0;
    uint64_t parts_ignored = 0;
    // Keys that were not admitted yet, or that lost their row by expiring.
    uint64_t keys_not_admitted = 0;
    uint64_t keys_expired = 0;
  };

  ContentModel(const IntegerJob& job, const PushLedger& ledger,
               const SimStorage& storage);

  // The job begins with the values of the newest checkpoint of the same job as
  // another run trained it, and with slots as of new rows; call it before the
  // others.
  absl::Status BeginWith(const ContentModel& trained);

  // A coordinator tells a configuration, or logs it as a layout with which all
  // servers begin; kDataLoss if it gives a generation to a second process.
  absl::Status Configured(const v1::Configuration& configuration,
                          bool is_layout);
  // What a server answered. `names`: of the rows that are wanted.
  absl::Status Pulled(const SimProcess& server, const v1::PullRequest& request,
                      const BufferChain& names, const v1::PullReply& reply,
                      const BufferChain& payload);
  absl::Status Pushed(const SimProcess& server, const v1::PushRequest& request,
                      const v1::PushReply& reply);
  absl::Status Sealed(const SimProcess& server, const v1::SealRequest& request);

  // Whether block `block` of the job is in the content of this server
  // generation, with this push in it.
  bool Contains(uint32_t server, const Number& generation, uint32_t block,
                PushLedger::PushIndex push) const;

  // Whether some block of this file of a checkpoint has this push not.
  absl::StatusOr<bool> Lacks(const v1::Manifest& manifest,
                             const v1::ShardFile& file,
                             PushLedger::PushIndex push) const;
  // The checkpoint that a server generation began with, by its directory;
  // empty: initial values, or no configuration lists it.
  std::string DirectoryOf(uint32_t server, const Number& generation) const;
  // The configuration of this version; null if it was never told.
  const v1::Configuration* ConfigurationOf(
      const v1::ConfigurationVersion& version) const;

  // The term whose coordinator filled the servers on which this term's goes on:
  // terms of one line are one story.
  uint64_t LineOf(uint64_t term) const;
  // By worker, the newest push that is in a checkpoint, and its generation.
  absl::StatusOr<std::map<uint32_t, std::pair<Number, uint64_t>>> NewestPushes(
      const v1::Manifest& manifest) const;
  // Whether every block has this push, under this configuration.
  bool IsWhole(PushLedger::PushIndex push,
               const v1::Configuration& configuration) const;
  // Whether one of its servers was restored by itself.
  bool IsLossy(const v1::Configuration& configuration) const;
  // The batches that are in every block of the others, by whatever push.
  std::set<BatchPlace> BatchesIn(const v1::Configuration& configuration) const;

  // All of a checkpoint, against the story at its seal.
  absl::Status CheckCheckpoint(const v1::Manifest& manifest);

  // How often each batch is in a block of a checkpoint.
  using BatchCounts = std::map<BatchPlace, uint32_t>;
  struct BlockContent {
    BatchCounts batches;
    // Whether something may be missing: a server lost its memory since the
    // last change of coordinators, or before the checkpoint it began with.
    bool lossy = false;
  };
  absl::StatusOr<std::vector<BlockContent>> ContentsOf(
      const v1::Manifest& manifest) const;

  const Counts& counts() const { return counts_; }

 private:
  using PushIndex = PushLedger::PushIndex;
  // What a server said that it applied.
  struct Applied {
    PushIndex push = 0;
    uint32_t block = 0;
    // How many pushes were in when the gradient's weights were read, if that
    // was of this content.
    absl::optional<uint64_t> read;
  };
  // Of a keyed variable's block, keys that come and go together, or one; all of
  // another.
  struct PartStory {
    bool has_rows = false;  // Of a keyed variable.
    uint64_t used = 0;      // Pushes that were in with the newest one of it.
    float sum = 0;
    // Of a job that is replayed: what the optimizer made of them.
    std::vector<float> values;
    std::vector<float> slots;
  };
  struct BlockStory {
    std::vector<PushIndex> pushes;
    std::vector<bool> has;  // By push.
    std::vector<PartStory> parts;
    // Where keys come and go by themselves.
    absl::optional<KeyStory> keys;
  };
  struct Record {
    Number generation;
    uint64_t sequence = 0;
    std::vector<uint32_t> missing;  // Blocks, in order.
    uint64_t earlier = 0;           // Pushes before it with a block in.
  };
  // Worker, generation, sequence, missing blocks.
  using Unfinished =
      std::tuple<uint32_t, Number, uint64_t, std::vector<uint32_t>>;
  struct SliceStory {
    bool owned = false;
    std::map<uint32_t, Record> records;  // By worker.
    std::vector<Unfinished> partial;
  };
  struct Content {
    SimProcess process;
    bool lossy = false;
    std::vector<BlockStory> blocks;  // All of the job; those owned count.
    std::vector<SliceStory> slices;
    std::vector<Applied> log;  // Since it began, in this order.
    // Of the newest snapshot whose stamp or seal came: whether it is sealed,
    // and else which blocks pushes after its cut have changed.
    Number snapshot;
    bool sealed = false;
    std::set<uint32_t> forked;
  };
  // What a server generation begins with.
  struct Beginning {
    std::string directory;
    uint64_t incarnation = 0;
    std::vector<bool> slices;  // Owned.
    bool first = false;        // With all others.
  };
  using ServerLife = std::pair<uint32_t, Number>;

  absl::StatusOr<Content*> Find(const SimProcess& process, uint32_t server,
                                const v1::ServerLife& generation);
  absl::Status Restore(const Beginning& beginning, Content* content) const;
  bool IsLossy(const ServerLife& life) const;
  ServerLife OwnerOf(uint32_t block,
                     const v1::Configuration& configuration) const;
  absl::StatusOr<const v1::Manifest*> ManifestOf(
      const std::string& directory) const;
  absl::StatusOr<const Content*> SealedContent(const v1::Manifest& manifest,
                                               const v1::ShardFile& file) const;
  // The block of a slice, counted over the job; kDataLoss if there is none.
  absl::StatusOr<uint32_t> BlockOf(uint32_t slice, uint32_t block) const;
  absl::Status CheckVersion(const ServerLife& life, uint32_t block,
                            const Content& content,
                            const v1::BlockVersion& version);
  absl::Status CheckListed(const v1::PushRequest& request,
                           const v1::ConfigurationVersion& configuration) const;
  // `counts`: null where a story is told again.
  void Apply(const Applied& applied, Content* content, Counts* counts) const;
  // Which parts of the block the push changes.
  std::vector<size_t> PartsFor(const Applied& applied, BlockStory* story,
                               Counts* counts) const;
  std::vector<size_t> KeysFor(const Applied& applied, BlockStory* story,
                              Counts* counts) const;
  void Replay(const Applied& applied, uint64_t before, size_t index,
              PartStory* part) const;
  // As the request says of the block.
  absl::optional<uint64_t> ReadBefore(const AnsweredBlock& pushed,
                                      const ServerLife& life) const;
  // The next elements of a pull's answer are those of the block, as it is
  // wanted.
  absl::Status CheckPulled(const ServerLife& life, uint32_t block,
                           const std::vector<float>& wanted,
                           NumberFormat format, ChainReader* reader) const;
  // All of a block, and so many of its rows, which `names` names.
  std::vector<float> WantedOf(uint32_t block, const Content& content) const;
  absl::StatusOr<std::vector<float>> WantedRowsOf(uint32_t block, uint32_t rows,
                                                  const Content& content,
                                                  ChainReader* names) const;
  // The same of the blocks of which a pull wants rows.
  absl::Status RowsPulled(const ServerLife& life,
                          const v1::PullRequest& request,
                          const BufferChain& names, const v1::PullReply& reply,
                          const Content& content, NumberFormat format,
                          ChainReader* reader);
  uint64_t RowElements(size_t variable) const {
    return job_.variables()[variable].shape(1);
  }
  void NoteFork(PushIndex push, uint32_t block, Content* content);
  // What element `e` of the block must be; `slot`: -1, or the optimizer's.
  float Wanted(const Content& content, uint32_t block, uint64_t e,
               int slot) const;
  absl::Status CheckBlocks(const Content& content, size_t variable,
                           const SavedRows& saved, int slot) const;
  absl::Status CheckSaved(const v1::SavedSlice& saved, const Content& content);
  absl::Status CheckRecords(const v1::SavedSlice& saved,
                            const SliceStory& story);

  const IntegerJob& job_;
  const PushLedger& ledger_;
  const SimStorage& storage_;
  const Optimizer optimizer_;
  std::vector<BlockStory> initial_;  // All of the job.
  std::map<Number, v1::Configuration> configurations_;
  std::map<uint64_t, uint64_t> lines_;  // By term.
  std::map<ServerLife, Beginning> beginnings_;
  std::map<ServerLife, Content> contents_;
  std::map<ServerLife, Content> begun_;  // As they were then.
  std::map<std::pair<Number, ServerLife>, Content> sealed_;
  // Which server life and slice a life of blocks belongs to.
  std::map<uint64_t, std::pair<ServerLife, uint32_t>> lives_;
  std::map<std::pair<ServerLife, uint32_t>, uint64_t> life_of_;
  Counts counts_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_CONTENT_MODEL_H_
