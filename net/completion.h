#ifndef PARAMD_NET_COMPLETION_H_
#define PARAMD_NET_COMPLETION_H_

namespace paramd {

// What a tag of the completion queue points to.
class Completion {
 public:
  virtual ~Completion() = default;
  // The operation is over; `ok` as gRPC means it. On the loop thread. May
  // delete this.
  virtual void Complete(bool ok) = 0;
};

}  // namespace paramd

#endif  // PARAMD_NET_COMPLETION_H_
