// Protobuf 3.21 gives MapFieldBase two more members where ThreadSanitizer is on.
// The distribution's library is compiled without it: the two would disagree about
// where the others lie.
#include <memory>  // Before the macro is gone: it is libstdc++'s, too.

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
