#include "process/version.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

// Of the notes in a part of a loaded file.
std::string BuildIdAmong(absl::string_view notes) {
  constexpr absl::string_view kName("GNU\0", 4);
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const size_t name = (note.n_namesz + size_t{3}) / 4 * 4;
    const size_t text = (note.n_descsz + size_t{3}) / 4 * 4;
    if (notes.size() < name + text) return "";
    if (note.n_type == NT_GNU_BUILD_ID &&
        notes.substr(0, note.n_namesz) == kName) {
      return absl::BytesToHexString(notes.substr(name, note.n_descsz));
    }
    notes.remove_prefix(name + text);
  }
  return "";
}

// Of the loaded file that has this function, into the string at `found`.
int FindBuildId(dl_phdr_info* file, size_t, void* found) {
  const auto here = reinterpret_cast<uintptr_t>(&FindBuildId);
  bool is_own = false;
  std::string id;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = file->dlpi_phdr[i];
    const uintptr_t begin = file->dlpi_addr + part.p_vaddr;
    is_own |=
        part.p_type == PT_LOAD && here >= begin && here - begin < part.p_memsz;
    if (part.p_type == PT_NOTE && id.empty()) {
      id = BuildIdAmong({reinterpret_cast<const char*>(begin), part.p_memsz});
    }
  }
  if (is_own) *static_cast<std::string*>(found) = id;
  return is_own ? 1 : 0;
}

constexpr char kVersion[] = "0.1";
constexpr char kCommit[] =
#include "process/commit.inc"
    ;

}  // namespace

std::string ParamdVersion() { return kVersion; }

std::string ParamdBuildId() {
  std::string id;
  dl_iterate_phdr(&FindBuildId, &id);
  return id;
}

std::string ParamdBuild() {
  return absl::StrCat(ParamdVersion(), " ", ParamdCommit(), " ",
                      ParamdBuildId());
}

std::string ParamdCommit() { return *kCommit == '\0' ? "unknown" : kCommit; }

}  // namespace paramd
