#include "cli/process/version.h"

namespace paramd {
namespace {

constexpr char kVersion[] = "0.1";
constexpr char kCommit[] =
#include "cli/process/commit.inc"
    ;

}  // namespace

std::string ParamdVersion() { return kVersion; }

std::string ParamdCommit() { return *kCommit == '\0' ? "unknown" : kCommit; }

}  // namespace paramd
