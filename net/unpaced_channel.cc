#include "net/unpaced_channel.h"

#include "grpc/support/sync.h"
#include "grpcpp/version_info.h"

#include "net/loopback.h"

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

// gRPC's public headers name the type and take a pointer to it; what it
// consists of they leave to a header that is not installed. These are the
// declarations of version 1.51.
struct grpc_mutate_socket_info;
struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  bool (*mutate_fd_2)(const grpc_mutate_socket_info* info,
                      grpc_socket_mutator* mutator);
};
struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount references;
};
void grpc_socket_mutator_init(grpc_socket_mutator* mutator,
                              const grpc_socket_mutator_vtable* vtable);

namespace paramd {
namespace {

// Before the socket is connected. False would fail the connection.
bool Mutate(int fd, grpc_socket_mutator*) {
  SendUnpaced(fd);
  return true;
}

// All do the same.
int Compare(grpc_socket_mutator*, grpc_socket_mutator*) { return 0; }

void Destroy(grpc_socket_mutator* mutator) { delete mutator; }

constexpr grpc_socket_mutator_vtable kVtable = {&Mutate, &Compare, &Destroy,
                                                /*mutate_fd_2=*/nullptr};

}  // namespace

void SendUnpaced(grpc::ChannelArguments* args) {
  auto* const mutator = new grpc_socket_mutator;
  grpc_socket_mutator_init(mutator, &kVtable);
  args->SetSocketMutator(mutator);  // Takes over the reference.
}

}  // namespace paramd

#else

namespace paramd {

void SendUnpaced(grpc::ChannelArguments*) {}

}  // namespace paramd

#endif
