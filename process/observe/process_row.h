#ifndef PARAMD_PROCESS_OBSERVE_PROCESS_ROW_H_
#define PARAMD_PROCESS_OBSERVE_PROCESS_ROW_H_

#include <string>

#include "proto/paramd/v1/report.pb.h"

namespace paramd {

// A process as people read of it; a dash for what is not known.
struct ProcessRow {
  std::string name;        // "worker-0 (chief)"
  std::string state;       // As the chief sees it: "alive".
  std::string heard;       // How long ago by the chief: "0.1 s".
  std::string generation;  // "1.3"
  std::string host;        // "host:pid"
  std::string address;
  std::string figures;  // What it does by its own account, or why it is silent.
};

// `member`: what the chief says of it; null: the chief was not asked.
ProcessRow RowOf(const v1::ProcessAnswer& answer, const v1::Member* member);

// One of the waits that `answer` tells of: "worker-1 generation 1.4 waits for
// ps-0, which does not answer, for 12 s".
std::string WaitText(const v1::ProcessAnswer& answer, const v1::Wait& wait);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_PROCESS_ROW_H_
