"""Protobuf messages through the distribution's own protoc.

    load("//third_party/bazel:proto.bzl", "cc_proto", "py_proto")

    cc_proto(
        name = "v1",
        srcs = glob(["*.proto"]),
        deps = ["//proto/common"],   # other cc_proto targets
    )

    py_proto(
        name = "v1_py_proto",
        srcs = glob(["*.proto"]),
        services = ["services.proto"],
    )

Imports are written from the top of the tree ("proto/paramd/v1/data.proto");
google/protobuf/*.proto is found in /usr/include. The generated header is
"proto/paramd/v1/data.pb.h". No gRPC code is generated for C++: services are
called and served by method name.
"""

ProtoSources = provider(
    "The .proto files that a target and what it imports consist of.",
    fields = {"transitive": "depset of File"},
)

def _transitive(ctx):
    return depset(
        ctx.files.srcs,
        transitive = [d[ProtoSources].transitive for d in ctx.attr.deps],
    )

def _protoc_impl(ctx):
    sources = _transitive(ctx)
    if ctx.outputs.outs:
        args = ctx.actions.args()
        args.add("-I.")
        args.add("-I/usr/include")
        args.add_all(ctx.attr.plugin_flags)
        for out_flag in ctx.attr.out_flags:
            args.add("--%s=%s" % (out_flag, ctx.bin_dir.path))
        args.add_all(ctx.files.srcs)
        ctx.actions.run(
            executable = "/usr/bin/protoc",
            arguments = [args],
            inputs = sources,
            outputs = ctx.outputs.outs,
            mnemonic = "Protoc",
            progress_message = "Generating code of %s" % ctx.label,
        )
    return [
        DefaultInfo(
            files = depset(ctx.outputs.outs),
            runfiles = ctx.runfiles(ctx.outputs.outs),
        ),
        ProtoSources(transitive = sources),
    ]

_protoc = rule(
    implementation = _protoc_impl,
    attrs = {
        "deps": attr.label_list(providers = [ProtoSources]),
        "out_flags": attr.string_list(mandatory = True),
        "outs": attr.output_list(mandatory = True),
        "plugin_flags": attr.string_list(),
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
    },
)

def _stem(src):
    return src[:-len(".proto")]

def _sources_of(label):
    """The label of the hidden target that carries a cc_proto's sources."""
    if ":" in label:
        return label + "_protoc"
    return "%s:%s_protoc" % (label, label.split("/")[-1])

def cc_proto(name, srcs, deps = [], **kwargs):
    """A cc_library `name` with the C++ messages of `srcs`.

    Args:
      name: the library.
      srcs: .proto files of this package.
      deps: the cc_proto targets whose files `srcs` import.
      **kwargs: visibility, testonly, tags: as of a cc_library.
    """
    headers = [_stem(s) + ".pb.h" for s in srcs]
    sources = [_stem(s) + ".pb.cc" for s in srcs]
    _protoc(
        name = name + "_protoc",
        srcs = srcs,
        outs = headers + sources,
        out_flags = ["cpp_out"],
        deps = [_sources_of(d) for d in deps],
        **kwargs
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],
        deps = deps + ["//third_party:protobuf"],
        **kwargs
    )

def py_proto(name, srcs, services = [], **kwargs):
    """Python modules of `srcs`, for the `data` of a python_test.

    They are imported as `from proto.paramd.v1 import data_pb2`.

    Args:
      name: a target whose files are the modules.
      srcs: all .proto files of this package; imports beyond it are not found.
      services: those of `srcs` for which *_pb2_grpc.py is generated too.
      **kwargs: visibility, testonly, tags.
    """
    _protoc(
        name = name + "_messages",
        srcs = srcs,
        outs = [_stem(s) + "_pb2.py" for s in srcs],
        out_flags = ["python_out"],
        **kwargs
    )
    parts = [":%s_messages" % name]
    if services:
        _protoc(
            name = name + "_services",
            srcs = srcs,
            outs = [_stem(s) + "_pb2_grpc.py" for s in srcs],
            out_flags = ["grpc_python_out"],
            plugin_flags = ["--plugin=protoc-gen-grpc_python=" +
                            "/usr/bin/grpc_python_plugin"],
            **kwargs
        )
        parts.append(":%s_services" % name)
    native.filegroup(name = name, srcs = parts, **kwargs)
