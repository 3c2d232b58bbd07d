#include "bench/harness/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

// One line without its end; false at the end of the stream.
bool ReadLine(int fd, std::string* line) {
  line->clear();
  char c;
  while (true) {
    const ssize_t got = read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    if (c == '\n') return true;
    line->push_back(c);
  }
}

bool WriteLine(int fd, const std::string& line) {
  const std::string text = absl::StrCat(line, "\n");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = write(fd, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += put;
  }
  return true;
}

[[noreturn]] void RunChild(const std::string& name, int in, int out,
                           const std::function<Child::Serve()>& make) {
  prctl(PR_SET_NAME, name.c_str());
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Child::Serve serve = make();
  std::string request;
  while (ReadLine(in, &request)) {
    if (!WriteLine(out, serve(request))) break;
  }
  std::_Exit(0);
}

}  // namespace

Child::Child(std::string name, const std::function<Serve()>& make)
    : name_(std::move(name)) {
  int down[2], up[2];
  CHECK(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0,
        "there are pipes");
  pid_ = fork();
  CHECK(pid_ >= 0, "the process can fork");
  if (pid_ == 0) {
    close(down[1]);
    close(up[0]);
    RunChild(name_, down[0], up[1], make);
  }
  close(down[0]);
  close(up[1]);
  to_child_ = down[1];
  from_child_ = up[0];
}

Child::~Child() {
  close(to_child_);
  close(from_child_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string Child::Call(const std::string& request) {
  std::string answer;
  if (!WriteLine(to_child_, request) || !ReadLine(from_child_, &answer)) {
    Fail(absl::StrCat("ended instead of answering \"", request, "\""));
  }
  return answer;
}

double Child::CpuSeconds() const {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid_, &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    Fail("has no CPU clock");
  }
  return static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
}

uint64_t Child::MinorFaults() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
  std::string text;
  std::getline(file, text);
  // After the name, which may have spaces: state and eight numbers, of which
  // the eighth counts minor faults.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) Fail("has no /proc/PID/stat");
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  int64_t value = 0;
  fields >> state;
  for (int i = 0; i < 7; ++i) fields >> value;
  return static_cast<uint64_t>(value);
}

void Child::Fail(const std::string& what) const {
  std::fprintf(stderr, "the process %s %s\n", name_.c_str(), what.c_str());
  std::exit(1);
}

}  // namespace paramd
