#include "base/worker_thread.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(WorkerThreadTest, FunctionsRunInOrderOnOneOtherThread) {
  std::vector<int> order;
  std::thread::id where;
  Mutex mutex;
  CondVar done;
  bool over = false;
  WorkerThread thread("files of a shard");
  for (int i = 0; i < 100; ++i) thread.Post([&, i] { order.push_back(i); });
  thread.Post([&] {
    where = std::this_thread::get_id();
    MutexLock lock(&mutex);
    over = true;
    done.NotifyOne();
  });
  MutexLock lock(&mutex);
  while (!over) done.Wait(&mutex);
  EXPECT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(WorkerThreadTest, TheEndWaitsForWhatRuns) {
  Mutex mutex;
  CondVar changed;
  bool running = false;
  bool finished = false;
  {
    WorkerThread thread("computing");
    thread.Post([&] {
      MutexLock lock(&mutex);
      running = true;
      changed.NotifyOne();
      // Until the destructor below is waiting, or nearly.
      changed.WaitFor(&mutex, absl::Milliseconds(20));
      finished = true;
    });
    MutexLock lock(&mutex);
    while (!running) changed.Wait(&mutex);
  }
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace paramd
