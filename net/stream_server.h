#ifndef PARAMD_NET_STREAM_SERVER_H_
#define PARAMD_NET_STREAM_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"

#include "base/time.h"

namespace paramd {

// One call of a StreamServer, as its handler sees it. At most one message is on
// its way to the caller at a time. Lives until its handler is destroyed.
class Stream {
 public:
  // Whether a message may be written.
  virtual bool may_write() const = 0;
  // REQUIRES: may_write().
  virtual void Write(const google::protobuf::Message& message) = 0;
  // Ends the call, once what was written is sent. The first end counts.
  virtual void Finish(const absl::Status& status) = 0;
  // From now on the caller may be silent for ever.
  virtual void ExpectSilence() = 0;

 protected:
  ~Stream() = default;
};

// What a method does with one call. Destroyed when the call is over, whoever
// ended it: also at the caller's deadline, or when its connection is lost.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // The caller's next message. If it is answered, the one after it is not read
  // before the answer is sent.
  virtual void Received(const grpc::ByteBuffer& message) = 0;
  // What was written has been sent: may_write() again.
  virtual void Written() {}
  // The caller sends nothing more. It still reads.
  virtual void HalfClosed() {}
};

// Serves the methods that are not in services.proto (health, reflection): each
// call is a stream of messages both ways, a unary one a short one. Anybody may
// call, before Hello too. Other methods are UNIMPLEMENTED.
//
// Invariant: at most 256 calls are open. Beyond that the caller that has been
// silent longest loses its call (RESOURCE_EXHAUSTED, counted); nobody may be
// silent for more than 60 s, unless the handler expects it, nor leave the end
// of a call unread for as long.
//
// Not thread-safe: lives on the loop thread. The queue outlives it; its calls
// must have left the queue before it goes (see calls_left).
class StreamServer {
 public:
  using MakeHandler = std::function<std::unique_ptr<StreamHandler>(Stream*)>;

  StreamServer();
  ~StreamServer();

  // Before the server is built.
  void AddTo(grpc::ServerBuilder* builder);
  // `path` as in "/grpc.health.v1.Health/Watch". What `make` captures outlives
  // the calls. Before Start.
  void Serve(const std::string& path, MakeHandler make);
  void Start(grpc::ServerCompletionQueue* queue);
  // Takes no more calls: what was posted ahead leaves the queue when the server
  // is shut down.
  void Stop();

  // Ends every open call, and each that comes, with `status`.
  void RefuseAll(const absl::Status& status);
  // Ends the calls whose callers are silent for too long.
  void Expire(Time now);
  Time next_deadline() const;

  // Calls that are in the queue, one posted ahead among them.
  int calls_left() const { return calls_left_; }
  // Calls whose end is not sent yet.
  int ends_under_way() const { return ends_under_way_; }

 private:
  class Call;

  void Expect();
  void Arrived(Call* call);
  bool MakeRoom();
  absl::Status TooMany();

  grpc::AsyncGenericService service_;
  grpc::ServerCompletionQueue* queue_ = nullptr;
  absl::flat_hash_map<std::string, MakeHandler> methods_;
  std::set<Call*> open_;  // Owned by the queue.
  // Of the open calls that are not expected to be silent, and of ended ones.
  std::set<std::pair<Time, Call*>> deadlines_;
  absl::Status refuse_all_;
  int calls_left_ = 0;
  int ends_under_way_ = 0;
  uint64_t over_limit_ = 0;
  bool stopped_ = false;
};

}  // namespace paramd

#endif  // PARAMD_NET_STREAM_SERVER_H_
