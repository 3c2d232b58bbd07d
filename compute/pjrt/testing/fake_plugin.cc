// A PJRT plugin for tests, whose programs give back their first inputs. What it
// does wrong the environment variable PARAMD_FAKE_PJRT says:
//
//   null, major, old          what GetPjrtApi gives
//   begin, client             fails there
//   hang                      makes no client before FakePjrtRelease, and then
//   fails none                      has no device compile, execute, memory
//   fails there; memory: for want of it cpu                       nothing, but
//   has as many devices as are asked for
//
// FakePjrtRelease ends a hanging once it has begun. FakePjrtObjects says how
// many objects it has given and not taken back.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

// Callers go through the functions of the api.
struct FakeError : PJRT_Error {
  std::string message;
  PJRT_Error_Code code;
};
struct PJRT_DeviceDescription {
  int id;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
};
struct PJRT_Client {
  std::vector<PJRT_Device> devices;
  std::vector<PJRT_Device*> pointers;
};
struct PJRT_LoadedExecutable {
  int device;
};
struct PJRT_Buffer {
  std::string bytes;
};
struct PJRT_Event {
  int unused = 0;
};

namespace {

std::atomic<int> objects{0};
std::atomic<bool> hangs{false};
std::atomic<bool> released{false};

template <class T>
T* Give(T object) {
  ++objects;
  return new T(std::move(object));
}

template <class T>
void TakeBack(T* object) {
  --objects;
  delete object;
}

bool Does(const char* what) {
  const char* const said = std::getenv("PARAMD_FAKE_PJRT");
  return said != nullptr && std::strcmp(said, what) == 0;
}

PJRT_Error* ErrorIf(const char* what,
                    PJRT_Error_Code code = PJRT_Error_Code_INTERNAL) {
  if (!Does(what)) return nullptr;
  FakeError error;
  error.vtable = nullptr;
  error.message = std::string("told to fail at ") + what;
  error.code = code;
  return Give(error);
}

void ErrorDestroy(PJRT_Error_Destroy_Args* args) {
  TakeBack(static_cast<FakeError*>(args->error));
}

void ErrorMessage(PJRT_Error_Message_Args* args) {
  const auto* const error = static_cast<const FakeError*>(args->error);
  args->message = error->message.data();
  args->message_size = error->message.size();
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = static_cast<const FakeError*>(args->error)->code;
  return nullptr;
}

PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args*) {
  return ErrorIf("begin");
}

PJRT_Error* EventAwait(PJRT_Event_Await_Args*) { return nullptr; }

PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args) {
  TakeBack(args->event);
  return nullptr;
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  if (PJRT_Error* const error = ErrorIf("client")) return error;
  if (PJRT_Error* const error = ErrorIf("hang")) {
    hangs = true;
    while (!released) std::this_thread::yield();
    return error;
  }
  int count = Does("none") ? 0 : 1;
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    if (std::string(option.name, option.name_size) == "cpu_device_count") {
      count = static_cast<int>(option.int64_value);
    }
  }
  PJRT_Client* const client = Give(PJRT_Client());
  for (int id = 0; id < count; ++id) client->devices.push_back({{id}});
  for (PJRT_Device& device : client->devices) {
    client->pointers.push_back(&device);
  }
  args->client = client;
  return nullptr;
}

PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) {
  TakeBack(args->client);
  return nullptr;
}

PJRT_Error* ClientPlatformName(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = Does("cpu") ? "cpu" : "fake";
  args->platform_name_size = std::strlen(args->platform_name);
  return nullptr;
}

PJRT_Error* ClientDevices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->pointers.data();
  args->num_addressable_devices = args->client->pointers.size();
  return nullptr;
}

PJRT_Error* DeviceGetDescription(PJRT_Device_GetDescription_Args* args) {
  args->device_description = &args->device->description;
  return nullptr;
}

PJRT_Error* DescriptionId(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}

PJRT_Error* DescriptionKind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "fake kind";
  args->device_kind_size = std::strlen(args->device_kind);
  return nullptr;
}

PJRT_Error* ClientCompile(PJRT_Client_Compile_Args* args) {
  if (PJRT_Error* const error = ErrorIf("compile")) return error;
  args->executable = Give(PJRT_LoadedExecutable{0});
  return nullptr;
}

PJRT_Error* ExecutableDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  TakeBack(args->executable);
  return nullptr;
}

PJRT_Error* BufferFromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  size_t bytes = args->type == PJRT_Buffer_Type_U64 ? 8 : 4;
  for (size_t d = 0; d < args->num_dims; ++d) bytes *= args->dims[d];
  args->buffer = Give(
      PJRT_Buffer{std::string(static_cast<const char*>(args->data), bytes)});
  args->done_with_host_buffer = Give(PJRT_Event());
  return nullptr;
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  if (PJRT_Error* const error = ErrorIf("execute")) return error;
  if (PJRT_Error* const error =
          ErrorIf("memory", PJRT_Error_Code_RESOURCE_EXHAUSTED)) {
    return error;
  }
  for (size_t i = 0; i < args->num_args; ++i) {
    args->output_lists[0][i] = Give(PJRT_Buffer(*args->argument_lists[0][i]));
  }
  return nullptr;
}

PJRT_Error* BufferToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  std::memcpy(args->dst, args->src->bytes.data(), args->dst_size);
  args->event = Give(PJRT_Event());
  return nullptr;
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  TakeBack(args->buffer);
  return nullptr;
}

PJRT_Api MakeApi() {
  PJRT_Api api = {};
  api.struct_size = Does("old") ? 64 : PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR + (Does("major") ? 1 : 0);
  api.pjrt_api_version.minor_version = 7;
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;
  api.PJRT_Plugin_Initialize = PluginInitialize;
  api.PJRT_Event_Await = EventAwait;
  api.PJRT_Event_Destroy = EventDestroy;
  api.PJRT_Client_Create = ClientCreate;
  api.PJRT_Client_Destroy = ClientDestroy;
  api.PJRT_Client_PlatformName = ClientPlatformName;
  api.PJRT_Client_AddressableDevices = ClientDevices;
  api.PJRT_Client_Compile = ClientCompile;
  api.PJRT_Client_BufferFromHostBuffer = BufferFromHost;
  api.PJRT_Device_GetDescription = DeviceGetDescription;
  api.PJRT_DeviceDescription_Id = DescriptionId;
  api.PJRT_DeviceDescription_Kind = DescriptionKind;
  api.PJRT_LoadedExecutable_Destroy = ExecutableDestroy;
  api.PJRT_LoadedExecutable_Execute = Execute;
  api.PJRT_Buffer_ToHostBuffer = BufferToHost;
  api.PJRT_Buffer_Destroy = BufferDestroy;
  return api;
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api;
  api = MakeApi();
  return Does("null") ? nullptr : &api;
}

extern "C" int FakePjrtObjects() { return objects; }

// Whether it came to hang, which is over then.
extern "C" bool FakePjrtRelease() {
  released = hangs.load();
  return released;
}
