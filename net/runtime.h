#ifndef PARAMD_NET_RUNTIME_H_
#define PARAMD_NET_RUNTIME_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"

#include "proto/paramd/v1/status.pb.h"
#include "tensor/core.h"

namespace paramd {

// Joins the cores of one process with a transport, with work outside them and
// with time. Everything a core sees happens on the loop thread: the one that is
// in Run().
//
// Invariant: a call that a core sends is answered exactly once, at its deadline
// at the latest (DEADLINE_EXCEEDED); at once with UNAVAILABLE if the peer is
// not known.
//
// Thread safety: Post, Drain and Stop on any thread; everything else before Run
// on Run's thread. Cores, and what handlers capture, outlive Run.
class Runtime {
 public:
  // Ends one work outside. Any thread, exactly once; after the runtime is gone
  // it does nothing.
  using IoDone = std::function<void(IoResult)>;
  // Does one work outside. Called on the loop thread and must not block: what
  // takes time is handed to a WorkerThread. `IoResult.io` is filled in by the
  // runtime.
  using IoHandler = std::function<void(Outbox::IoItem item, IoDone done)>;

  virtual ~Runtime() = default;

  // REQUIRES: no core of this name was added. Not owned.
  virtual void AddCore(PeerId self, Core* core) = 0;
  // Tells `f` of each request to the core `self` whose caller has stopped
  // waiting before it was answered. Called on the loop thread.
  virtual void OnExpired(PeerId self, std::function<void(CallId)> f) = 0;
  // Work whose head is of `type` goes to `handler`. Work without a handler
  // completes with UNIMPLEMENTED; beyond 4,096 open works, RESOURCE_EXHAUSTED.
  virtual void HandleIo(const google::protobuf::Descriptor* type,
                        IoHandler handler) = 0;
  // Adds to what this process says about itself. Called on the loop thread.
  virtual void OnStatus(std::function<void(v1::StatusReply*)> fill) = 0;

  // What the fillers say. REQUIRES: on the loop thread.
  virtual v1::StatusReply Status() = 0;
  // Asks a core of this process what somebody outside may ask it. `done` gets
  // the answer on the loop thread, or DEADLINE_EXCEEDED; never, if the loop
  // ends before. REQUIRES: on the loop thread.
  using Answer = std::function<void(const absl::Status& status,
                                    const google::protobuf::Message* reply)>;
  virtual void Ask(PeerId to, Head request, absl::Duration deadline,
                   Answer done) = 0;
  // Runs `f` on the loop thread, in the order of posting. Dropped if the loop
  // has ended.
  virtual void Post(std::function<void()> f) = 0;
  // Makes the loop look whose tick is due. What it returns may be called on any
  // thread, also when the runtime is gone: then it does nothing.
  virtual std::function<void()> Waker() = 0;

  // Starts the cores and drives them. Returns OK when every core has called
  // Outbox::Exit with OK (one that has is called no more); with the first other
  // status as soon as the other cores have told of it (Core::Fail), which those
  // without anybody to tell do at once; or with the status given to Stop.
  // Replies that the cores gave before are sent first. REQUIRES: called once.
  virtual absl::Status Run() = 0;
  // Ends in good order: every core is told to drain. Run returns `status` when
  // all have exited, at `timeout` at the latest; a core that fails meanwhile
  // ends it as ever. Again: no change.
  virtual void Drain(absl::Status status, absl::Duration timeout) = 0;
  // Run returns `status`, unless it has another already.
  virtual void Stop(absl::Status status) = 0;
};

}  // namespace paramd

#endif  // PARAMD_NET_RUNTIME_H_
