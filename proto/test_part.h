#ifndef PARAMD_PROTO_TEST_PART_H_
#define PARAMD_PROTO_TEST_PART_H_

#include "proto/paramd/v1/test_part.pb.h"

namespace paramd {

// Part of the same evaluation, or none.
inline bool SameEvaluation(const v1::TestPart& a, const v1::TestPart& b) {
  return a.term() == b.term() && a.evaluation() == b.evaluation();
}

inline bool SamePart(const v1::TestPart& a, const v1::TestPart& b) {
  return SameEvaluation(a, b) && a.begin() == b.begin() && a.end() == b.end();
}

}  // namespace paramd

#endif  // PARAMD_PROTO_TEST_PART_H_
