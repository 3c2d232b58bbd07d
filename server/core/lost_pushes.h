#ifndef PARAMD_SERVER_CORE_LOST_PUSHES_H_
#define PARAMD_SERVER_CORE_LOST_PUSHES_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "proto/refusal.h"
#include "server/core/slice.h"

namespace paramd {

// The acknowledged pushes that a server lacks because they were lost with an
// earlier life of it. A session that is older than this life says, with its
// first chunk to it, what it holds acknowledged; those of them that the
// restored content lacks are lost. What the content's checkpoint lists as lost
// stays listed.
//
// A push that was given up and never reached the server, between the newest one
// that was restored and the first one that comes, counts as lost too: neither
// side can tell the two.
//
// Not thread-safe: belongs to a Shard.
class LostPushes {
 public:
  // A life of server `server` begins, with initial values so far.
  void Begin(uint32_t server, const v1::ServerLife& generation);
  // A part of its content is this, as far as the checkpoint is of `run_id`: the
  // sessions of another run mean nothing here.
  void Restore(const v1::ReadSlicesResult& content, absl::string_view run_id);

  using List = google::protobuf::RepeatedPtrField<v1::LostPushes>;
  // A life begins with what these slices hold and their last life lists.
  void TakeOver(uint32_t server, const v1::ServerLife& generation,
                const std::vector<Slice*>& slices, const List& listed);

  // A chunk of this session, made for this life, says which push its worker
  // holds acknowledged. What is lost, if this is the first word of a session
  // that is older than this life and something is.
  absl::optional<v1::LostPushes> Hear(uint32_t worker,
                                      const v1::SessionId& generation,
                                      uint64_t acknowledged);

  // Appends all that is known to be lost, and an empty range for each session
  // that was heard and lost nothing.
  void Save(List* lost) const;
  // Pushes, a push that two lives lost counted twice.
  uint64_t total() const;

  // Of earlier lives. The oldest ones beyond are kept as one number.
  static constexpr size_t kMostKept = 1024;

 private:
  using Session = std::pair<uint32_t, v1::SessionId>;
  struct Earlier {
    bool operator()(const Session& a, const Session& b) const {
      return a.first != b.first ? a.first < b.first : a.second < b.second;
    }
  };

  // Worker, generation, first push, server and its generation.
  using Key = std::tuple<uint32_t, uint64_t, uint64_t, uint64_t, uint32_t,
                         uint64_t, uint64_t>;

  void Keep(const v1::LostPushes& lost);
  // Pushes without names, with those of the first `dropped` of kept_.
  uint64_t Nameless(size_t dropped) const;

  uint32_t server_ = 0;
  v1::ServerLife generation_;
  std::map<Session, uint64_t, Earlier> has_;  // Newest push restored.
  // As the checkpoint's files list them. Bound: kMostKept for each file.
  std::vector<v1::LostPushes> kept_;
  std::set<Key> known_;                    // Of kept_.
  std::map<uint32_t, uint64_t> nameless_;  // By the server whose file has it.
  // Bound: one for each worker, that of the configuration this life began with.
  std::map<Session, v1::LostPushes, Earlier> heard_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_LOST_PUSHES_H_
