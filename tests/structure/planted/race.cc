// Writes one int from two threads, with nothing between them.
#include <thread>

int shared_value = 0;

int main() {
  std::thread other([] { shared_value = 1; });
  shared_value = 2;
  other.join();
  return 0;
}
