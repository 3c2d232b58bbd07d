#ifndef PARAMD_COMPUTE_DEVICE_ONEDNN_H_
#define PARAMD_COMPUTE_DEVICE_ONEDNN_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"

#include "dnnl.hpp"

namespace paramd {

// Primitives of oneDNN by what they do and on which shape. Making one compiles
// code and takes milliseconds, so each is made once and kept. They run in the
// calling thread alone, in memory that is handed in, and share one scratch
// memory that is as large as the largest of them wants. Running one allocates
// nothing of ours; oneDNN itself makes a small table of the arguments.
//
// Not thread-safe: one per device.
class OneDnn {
 public:
  using Key = absl::InlinedVector<uint64_t, 20>;
  using Arguments = std::initializer_list<std::pair<int, dnnl::memory>>;

  // One or more primitives in a row, over memory that is handed in when they
  // run, in the order of the calls of Given, and memory of their own.
  class Program {
   public:
    explicit Program(OneDnn* owner) : owner_(*owner) {}

    dnnl::memory Given(const dnnl::memory::desc& desc);
    dnnl::memory Own(const dnnl::memory::desc& desc);
    // `given` as `desc` wants it: itself, or a copy that is made whenever the
    // program runs.
    dnnl::memory In(const dnnl::memory& given, const dnnl::memory::desc& desc);
    void Add(const dnnl::primitive& primitive,
             const dnnl::memory::desc& scratch, Arguments arguments);

   private:
    friend class OneDnn;

    struct Step {
      dnnl::primitive primitive;
      std::vector<dnnl_exec_arg_t> arguments;
    };

    OneDnn& owner_;
    std::vector<dnnl::memory> given_;
    std::vector<dnnl::memory> own_;
    std::vector<dnnl::memory> scratch_;
    std::vector<Step> steps_;
  };

  OneDnn();

  // Runs the program of that key on the memory handed in; makes it first if
  // there is none.
  void Run(const Key& key, absl::FunctionRef<void(Program*)> make,
           std::initializer_list<const void*> given);

  const dnnl::engine& engine() const { return engine_; }
  // Of primitives: scratch memory is handed in.
  const dnnl::primitive_attr& attributes() const { return attributes_; }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive_attr attributes_;
  std::vector<std::byte> scratch_;
  absl::flat_hash_map<Key, std::unique_ptr<Program>> programs_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_ONEDNN_H_
