"""Bazel's native protobuf rules under the names that rules_proto gives them."""

ProtoInfo = ProtoInfo
proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
