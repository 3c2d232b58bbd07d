#include "coordinator/core/members.h"

namespace paramd {

v1::Member* AddMember(v1::TaskType type, uint32_t index, v1::JobStats* job) {
  v1::Member* const member = job->add_members();
  member->mutable_task()->set_type(type);
  member->mutable_task()->set_index(index);
  member->set_state(v1::Member::AWAITED);
  return member;
}

}  // namespace paramd
