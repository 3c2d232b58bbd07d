// Preloaded into a process (LD_PRELOAD), it makes the disk of that one slow, in
// any file system and without privileges. While there is a file $SLOW_DISK,
// each fsync and fdatasync takes as many milliseconds longer as it says, and
// appends a line to $SLOW_DISK.calls first: the thread's name and the path.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using Sync = int (*)(int);

std::string ThisThread() {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  return name;
}

std::string PathOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  return length < 0 ? "?" : std::string(path, static_cast<size_t>(length));
}

// 0: it is not slow now.
long Milliseconds(const std::string& file) {
  std::FILE* const text = std::fopen(file.c_str(), "re");
  if (text == nullptr) return 0;
  long milliseconds = 0;
  if (std::fscanf(text, "%ld", &milliseconds) != 1) milliseconds = 0;
  std::fclose(text);
  return milliseconds;
}

void Append(const std::string& file, const std::string& line) {
  const int fd =
      open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  if (write(fd, line.data(), line.size()) < 0) std::perror("slow_disk");
  close(fd);
}

int DoSlowly(const char* name, int fd) {
  const char* const file = std::getenv("SLOW_DISK");
  const long milliseconds = file == nullptr ? 0 : Milliseconds(file);
  if (milliseconds > 0) {
    Append(std::string(file) + ".calls",
           ThisThread() + " " + PathOf(fd) + "\n");
    const timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, nullptr);
  }
  return reinterpret_cast<Sync>(dlsym(RTLD_NEXT, name))(fd);
}

}  // namespace

extern "C" int fsync(int fd) { return DoSlowly("fsync", fd); }
extern "C" int fdatasync(int fd) { return DoSlowly("fdatasync", fd); }
