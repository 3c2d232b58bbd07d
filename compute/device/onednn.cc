#include "compute/device/onednn.h"

#include <omp.h>

#include "base/check.h"

namespace paramd {
namespace {

void SetData(const dnnl::memory& memory, const void* data) {
  CHECK(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)) ==
            dnnl_success,
        "oneDNN takes memory of the host");
}

}  // namespace

dnnl::memory OneDnn::Program::Given(const dnnl::memory::desc& desc) {
  given_.emplace_back(desc, owner_.engine_, nullptr);
  return given_.back();
}

dnnl::memory OneDnn::Program::Own(const dnnl::memory::desc& desc) {
  own_.emplace_back(desc, owner_.engine_);
  return own_.back();
}

dnnl::memory OneDnn::Program::In(const dnnl::memory& given,
                                 const dnnl::memory::desc& desc) {
  if (given.get_desc() == desc) return given;
  const dnnl::memory copy = Own(desc);
  const dnnl::reorder::primitive_desc reorder(given, copy, owner_.attributes_);
  Add(dnnl::reorder(reorder), reorder.scratchpad_desc(),
      {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, copy}});
  return copy;
}

void OneDnn::Program::Add(const dnnl::primitive& primitive,
                          const dnnl::memory::desc& scratch,
                          Arguments arguments) {
  Step step{primitive, {}};
  for (const auto& [name, memory] : arguments) {
    step.arguments.push_back({name, memory.get()});
  }
  if (scratch.get_size() > 0) {
    scratch_.emplace_back(scratch, owner_.engine_, nullptr);
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch_.back().get()});
    // oneDNN aligns inside of it.
    if (owner_.scratch_.size() < scratch.get_size()) {
      owner_.scratch_.resize(scratch.get_size());
    }
  }
  steps_.push_back(std::move(step));
}

OneDnn::OneDnn() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
  attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
}

void OneDnn::Run(const Key& key, absl::FunctionRef<void(Program*)> make,
                 std::initializer_list<const void*> given) {
  // Holds for the calling thread; more would change the order of additions.
  omp_set_num_threads(1);
  std::unique_ptr<Program>& program = programs_[key];
  if (program == nullptr) {
    program = std::make_unique<Program>(this);
    make(program.get());
  }
  CHECK(given.size() == program->given_.size(),
        "a program runs on the memory that it was made for");
  auto memory = program->given_.begin();
  for (const void* data : given) SetData(*memory++, data);
  for (const dnnl::memory& scratch : program->scratch_) {
    SetData(scratch, scratch_.data());
  }
  for (const Program::Step& step : program->steps_) {
    CHECK(dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                                 static_cast<int>(step.arguments.size()),
                                 step.arguments.data()) == dnnl_success,
          "a primitive of oneDNN runs on memory of its shape");
  }
}

}  // namespace paramd
