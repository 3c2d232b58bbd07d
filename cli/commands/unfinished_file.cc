#include "cli/commands/unfinished_file.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace paramd {
namespace {

constexpr int kEnding[] = {SIGHUP, SIGINT, SIGTERM};

// A handler may read it, for it takes no lock.
std::atomic<const char*> unfinished_path{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free);

// By then the signal does what it did before (SA_RESETHAND), once this returns.
void DeleteAndEnd(int number) {
  const char* const path = unfinished_path.load();
  if (path != nullptr) unlink(path);
  raise(number);
}

}  // namespace

UnfinishedFile::UnfinishedFile(std::string path) : path_(std::move(path)) {
  unfinished_path.store(path_.c_str());
  for (size_t i = 0; i < kSignals; ++i) {
    struct sigaction before = {};
    sigaction(kEnding[i], nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action = {};
    action.sa_handler = DeleteAndEnd;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    is_taken_[i] = sigaction(kEnding[i], &action, nullptr) == 0;
  }
}

UnfinishedFile::~UnfinishedFile() {
  for (size_t i = 0; i < kSignals; ++i) {
    if (is_taken_[i]) signal(kEnding[i], SIG_DFL);
  }
  unfinished_path.store(nullptr);
}

}  // namespace paramd
