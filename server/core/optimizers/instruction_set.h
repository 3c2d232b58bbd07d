#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_INSTRUCTION_SET_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_INSTRUCTION_SET_H_

namespace paramd {

// What loops over numbers are compiled for. All agree bit for bit.
enum class InstructionSet { kPortable, kAvx2, kAvx512 };

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_INSTRUCTION_SET_H_
