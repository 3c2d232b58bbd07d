#ifndef PARAMD_CHECKPOINT_FUZZ_FILES_H_
#define PARAMD_CHECKPOINT_FUZZ_FILES_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace paramd::fuzz {

// The directory in memory that the targets read, "memory://…": of the name of
// snapshot 1.5 at step 9.
extern const char kDirectory[];

// It has these files from now on, by name, and no others.
void SetFiles(const std::map<std::string, std::string>& files);
std::string PathOf(absl::string_view name);

// A directory in an input: name and content of each file, sized (pieces.h).
std::map<std::string, std::string> ReadFiles(absl::string_view bytes);
std::string WriteFiles(const std::map<std::string, std::string>& files);

// Makes sizes and checksums right, those of the manifest and those in it: bytes
// that were changed would get no further. Nothing, if there is no manifest that
// can be read.
void MakeSumsRight(std::map<std::string, std::string>* files);

}  // namespace paramd::fuzz

#endif  // PARAMD_CHECKPOINT_FUZZ_FILES_H_
