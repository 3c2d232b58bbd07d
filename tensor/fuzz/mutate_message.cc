#include "tensor/fuzz/mutate_message.h"

#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace paramd::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr uint64_t kIntegers[] = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  8,
                                  100,
                                  255,
                                  256,
                                  65535,
                                  65536,
                                  0x7fffff,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  uint64_t{1} << 32,
                                  uint64_t{1} << 40,
                                  uint64_t{1} << 62,
                                  uint64_t{1} << 63,
                                  ~uint64_t{0} - 1,
                                  ~uint64_t{0}};
constexpr double kReals[] = {0,
                             -0.0,
                             1,
                             -1,
                             0.5,
                             1e-3,
                             1e30,
                             -1e38,
                             1e300,
                             5e-324,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
const char* const kTexts[] = {"",      "a", "w",  "b",  "run", "digest", "host",
                              "slot:", "/", "..", "\n", "%s",  "\xff"};

uint64_t Integer(uint64_t was, RandomStream* random) {
  switch (random->Below(4)) {
    case 0:
      return was + 1;
    case 1:
      return was - 1;
    case 2:
      return random->Below(16);
    default:
      return kIntegers[random->Below(std::size(kIntegers))];
  }
}

double Real(double was, RandomStream* random) {
  if (random->Chance(0.25)) return was * 2;
  return kReals[random->Below(std::size(kReals))];
}

std::string Text(std::string was, RandomStream* random) {
  const size_t at = random->Below(was.size() + 1);
  switch (random->Below(4)) {
    case 0:
      was.insert(at, 1, static_cast<char>(random->Bits()));
      return was;
    case 1:
      was.resize(at);
      return was;
    case 2:
      // As long as a name must not be.
      return std::string(random->Below(2000), 'n');
    default:
      return kTexts[random->Below(std::size(kTexts))];
  }
}

// A field of a message, or one of those that a repeated one has.
class Place {
 public:
  // `index` below 0: the field is not repeated.
  Place(Message* message, const FieldDescriptor* field, int index)
      : message_(message),
        reflection_(message->GetReflection()),
        field_(field),
        index_(index) {}

  void Mutate(RandomStream* random) const;

 private:
  // What both kinds of fields have by other names.
  template <typename T, typename Get, typename GetOne, typename Set,
            typename SetOne, typename Change>
  void ReplaceAs(Get get, GetOne get_one, Set set, SetOne set_one,
                 Change change) const {
    const T was = index_ < 0
                      ? (reflection_->*get)(*message_, field_)
                      : (reflection_->*get_one)(*message_, field_, index_);
    if (index_ < 0) {
      (reflection_->*set)(message_, field_, static_cast<T>(change(was)));
    } else {
      (reflection_->*set_one)(message_, field_, index_,
                              static_cast<T>(change(was)));
    }
  }

  Message* const message_;
  const Reflection* const reflection_;
  const FieldDescriptor* const field_;
  const int index_;
};

#define PARAMD_CHANGE(Name, Type, change)                                 \
  ReplaceAs<Type>(&Reflection::Get##Name, &Reflection::GetRepeated##Name, \
                  &Reflection::Set##Name, &Reflection::SetRepeated##Name, \
                  change)

void Place::Mutate(RandomStream* random) const {
  const auto integer = [&](auto was) {
    return Integer(static_cast<uint64_t>(was), random);
  };
  const auto real = [&](auto was) {
    return Real(static_cast<double>(was), random);
  };
  switch (field_->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return PARAMD_CHANGE(Int32, int32_t, integer);
    case FieldDescriptor::CPPTYPE_INT64:
      return PARAMD_CHANGE(Int64, int64_t, integer);
    case FieldDescriptor::CPPTYPE_UINT32:
      return PARAMD_CHANGE(UInt32, uint32_t, integer);
    case FieldDescriptor::CPPTYPE_UINT64:
      return PARAMD_CHANGE(UInt64, uint64_t, integer);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return PARAMD_CHANGE(Double, double, real);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return PARAMD_CHANGE(Float, float, real);
    case FieldDescriptor::CPPTYPE_BOOL:
      return PARAMD_CHANGE(Bool, bool, [](bool was) { return !was; });
    case FieldDescriptor::CPPTYPE_ENUM:
      // One more than there are: what a later version sends.
      return PARAMD_CHANGE(EnumValue, int, [&](int) {
        return static_cast<int>(
            random->Below(field_->enum_type()->value_count() + 1));
      });
    case FieldDescriptor::CPPTYPE_STRING:
      return PARAMD_CHANGE(String, std::string, [&](std::string was) {
        return Text(std::move(was), random);
      });
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MutateMessage(
          random, index_ < 0 ? reflection_->MutableMessage(message_, field_)
                             : reflection_->MutableRepeatedMessage(
                                   message_, field_, index_));
  }
}

#undef PARAMD_CHANGE

void AddOne(Message* message, const FieldDescriptor* field) {
  const Reflection* const reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const int size = reflection->FieldSize(*message, field);
      Message* const added = reflection->AddMessage(message, field);
      // Like the last one, of which most is right.
      if (size > 0) {
        added->CopyFrom(
            reflection->GetRepeatedMessage(*message, field, size - 1));
      }
      return;
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->AddInt32(message, field, 0);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->AddInt64(message, field, 0);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->AddUInt32(message, field, 0);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->AddUInt64(message, field, 0);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->AddDouble(message, field, 0);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->AddFloat(message, field, 0);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->AddBool(message, field, false);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->AddEnumValue(message, field, 0);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->AddString(message, field, "");
  }
}

void MutateRepeated(RandomStream* random, Message* message,
                    const FieldDescriptor* field) {
  const Reflection* const reflection = message->GetReflection();
  const int size = reflection->FieldSize(*message, field);
  const uint64_t choice = random->Below(8);
  if (size == 0 || choice == 0) return AddOne(message, field);
  if (choice == 1) return reflection->RemoveLast(message, field);
  const int index = static_cast<int>(random->Below(size));
  if (choice == 2) {
    return reflection->SwapElements(message, field, index, size - 1);
  }
  Place(message, field, index).Mutate(random);
}

}  // namespace

std::unique_ptr<Message> NewMessage(absl::string_view type) {
  const Descriptor* const descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          absl::StrCat("paramd.v1.", type));
  if (descriptor == nullptr) return nullptr;
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(descriptor)
          ->New());
}

void MutateMessage(RandomStream* random, Message* message) {
  const Descriptor* const type = message->GetDescriptor();
  if (type->field_count() == 0) return;
  const Reflection* const reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(*message, &set);
  // What is there is of more use than what is not.
  const FieldDescriptor* const field =
      !set.empty() && random->Chance(0.7)
          ? set[random->Below(set.size())]
          : type->field(static_cast<int>(random->Below(type->field_count())));
  if (field->is_map()) return;
  if (random->Chance(0.05)) return reflection->ClearField(message, field);
  if (field->is_repeated()) return MutateRepeated(random, message, field);
  Place(message, field, -1).Mutate(random);
}

}  // namespace paramd::fuzz
