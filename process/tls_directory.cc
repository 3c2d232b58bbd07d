#include "process/tls_directory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "net/authority.h"
#include "net/certified_name.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kSecret = 0600;
constexpr mode_t kPublic = 0644;
constexpr mode_t kDirectory = 0700;
constexpr int kAuthorityDays = 3650;
constexpr absl::Duration kEarlier = absl::Hours(1);

Validity DaysFrom(absl::Time now, int days) {
  return {now - kEarlier, now + days * absl::Hours(24)};
}

absl::Status Cannot(absl::string_view what, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot ", what, " '", path, "': ", strerror(errno)));
}

// A file that is not there yet.
absl::Status Write(const std::string& path, const std::string& text,
                   mode_t mode) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return Cannot("make", path);
  const ssize_t count = write(fd, text.data(), text.size());
  const bool is_written =
      count == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  if (close(fd) != 0 || !is_written) return Cannot("write", path);
  return absl::OkStatus();
}

// In place of the one that is there.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string next = path + ".next";
  unlink(next.c_str());
  RETURN_IF_ERROR(Write(next, text, kPublic));
  if (rename(next.c_str(), path.c_str()) != 0) return Cannot("replace", path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Cannot("read", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// As the job file wants it: it becomes part of a certificate's name.
absl::Status CheckJobName(const std::string& job) {
  const bool is_name =
      !job.empty() && std::all_of(job.begin(), job.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
      });
  if (is_name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--job is '", job,
                   "'; expected the job's name: letters, "
                   "digits, '.', '_' and '-'"));
}

absl::Status MakeEmptyDirectory(const std::string& directory) {
  std::error_code error;
  const fs::path parent = fs::absolute(directory, error).parent_path();
  fs::create_directories(parent, error);
  if (mkdir(directory.c_str(), kDirectory) == 0) return absl::OkStatus();
  if (errno != EEXIST || !fs::is_directory(directory, error)) {
    return Cannot("make the directory", directory);
  }
  if (fs::is_empty(directory, error) && !error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the directory '", directory,
                   "' is not empty, and keys are not written over: name a new "
                   "one, or renew what is there (paramd tls renew)"));
}

// Nobody would take one that outlives its authority, though it says that it
// holds.
absl::Status CheckOutlived(const Authority& authority, const std::string& file,
                           int days, absl::Time until) {
  if (absl::ToTimeT(until) <= absl::ToTimeT(authority.until())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "certificates for ", days, " days would outlive their authority '", file,
      "', which holds until ",
      absl::FormatTime("%Y-%m-%d", authority.until(), absl::UTCTimeZone()),
      ": give fewer --days, or make a new directory (paramd tls init)"));
}

std::vector<std::string> NamesOf(const TlsTasks& tasks) {
  std::vector<std::string> names;
  const auto add = [&](const char* role, int count) {
    for (int i = 0; i < count; ++i) names.push_back(absl::StrCat(role, "-", i));
  };
  add("ps", tasks.servers);
  add("worker", tasks.workers);
  add("evaluator", tasks.evaluators);
  add("stage", tasks.stages);
  add("operator", tasks.operators);
  add("reader", tasks.readers);
  return names;
}

absl::Status MakeTask(const std::string& directory, const Authority& authority,
                      const CertifiedName& name, Validity validity) {
  if (mkdir(directory.c_str(), kDirectory) != 0) {
    return Cannot("make the directory", directory);
  }
  ASSIGN_OR_RETURN(const KeyAndCertificate pair,
                   authority.Issue(name, validity));
  RETURN_IF_ERROR(Write(directory + "/tls.key", pair.key, kSecret));
  RETURN_IF_ERROR(Write(directory + "/tls.crt", pair.certificate, kPublic));
  return Write(directory + "/ca.crt", authority.pem().certificate, kPublic);
}

}  // namespace

absl::Status MakeTlsDirectory(const std::string& directory,
                              const std::string& job, const TlsTasks& tasks,
                              int days, absl::Time now) {
  RETURN_IF_ERROR(CheckJobName(job));
  RETURN_IF_ERROR(MakeEmptyDirectory(directory));
  ASSIGN_OR_RETURN(
      const Authority authority,
      Authority::Make(job, DaysFrom(now, std::max(days, kAuthorityDays))));
  RETURN_IF_ERROR(Write(directory + "/ca.key", authority.pem().key, kSecret));
  RETURN_IF_ERROR(
      Write(directory + "/ca.crt", authority.pem().certificate, kPublic));
  RETURN_IF_ERROR(Write(directory + "/job", job, kPublic));
  for (const std::string& task : NamesOf(tasks)) {
    ASSIGN_OR_RETURN(const CertifiedName name, NameOfTask(job, task));
    RETURN_IF_ERROR(MakeTask(absl::StrCat(directory, "/", task), authority,
                             name, DaysFrom(now, days)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RenewTlsDirectory(
    const std::string& directory, int days, absl::Time now) {
  KeyAndCertificate pem;
  ASSIGN_OR_RETURN(pem.key, Read(directory + "/ca.key"));
  ASSIGN_OR_RETURN(pem.certificate, Read(directory + "/ca.crt"));
  ASSIGN_OR_RETURN(const Authority authority, Authority::Of(std::move(pem)));
  RETURN_IF_ERROR(CheckOutlived(authority, directory + "/ca.crt", days,
                                DaysFrom(now, days).until));
  ASSIGN_OR_RETURN(const std::string job, Read(directory + "/job"));
  RETURN_IF_ERROR(CheckJobName(job));
  std::vector<std::string> tasks;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string task = entry->path().filename().string();
    if (NameOfTask(job, task).ok()) tasks.push_back(task);
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot list the directory '", directory, "': ", error.message()));
  }
  std::sort(tasks.begin(), tasks.end());
  for (const std::string& task : tasks) {
    const std::string of_task = absl::StrCat(directory, "/", task);
    ASSIGN_OR_RETURN(const std::string key, Read(of_task + "/tls.key"));
    ASSIGN_OR_RETURN(const CertifiedName name, NameOfTask(job, task));
    ASSIGN_OR_RETURN(const std::string certificate,
                     authority.Renew(key, name, DaysFrom(now, days)));
    RETURN_IF_ERROR(Replace(of_task + "/tls.crt", certificate));
  }
  return tasks;
}

}  // namespace paramd
