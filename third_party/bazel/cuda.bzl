"""CUDA sources, compiled where CUDA is found and left out where it is not.

    load("//third_party/bazel:cuda.bzl", "cuda_library", "if_cuda")

    cuda_library(
        name = "axpy_cuda",
        srcs = ["axpy_cuda.cu"],
        hdrs = ["axpy_cuda.h"],
        without_cuda = ["axpy_no_cuda.cc"],
        deps = [":axpy"],
    )

--define=gpu=all compiles for each generation from Turing (sm_75) to Hopper
(sm_90): for what is carried to other machines. Without it there is code for
Hopper, and PTX, which the driver translates when a program starts.

Who depends on it sees the macro PARAMD_CUDA if, and only if, the .cu sources
are in. A header in `hdrs` names no CUDA type, so that C++ which knows nothing of
CUDA can include it: nvcc alone knows where CUDA's headers are.
"""

load("@local_config_cuda//:defs.bzl", "CUDA_AVAILABLE", "NVCC")

# C++17: the newest that the nvcc of Debian 12 compiles. No fused multiply-add:
# a kernel and its CPU twin agree bit for bit.
_NVCC_FLAGS = [
    "-std=c++17",
    "-O2",
    "--fmad=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ftz=false",
    "-ccbin=/usr/bin/g++",
    "-Xcompiler=-fPIC,-Wall,-Werror,-ffp-contract=off,-fno-math-errno",
    "-Xcompiler=-fno-omit-frame-pointer",
    "-DPARAMD_CUDA=1",
    # An assignment gives an absl::Status, which nobody has to look at.
    "-diag-suppress=2810",
]

_PTX = ["-gencode=arch=compute_75,code=compute_75"]
_HOPPER = ["-gencode=arch=compute_90,code=sm_90"]
_OTHERS = [
    "-gencode=arch=compute_%d,code=sm_%d" % (sm, sm)
    for sm in [75, 80, 86, 89]
]

def if_cuda(then, otherwise = []):
    """`then` where CUDA was found, `otherwise` where it was not."""
    return then if CUDA_AVAILABLE else otherwise

def _cuda_objects_impl(ctx):
    headers = [d[CcInfo].compilation_context for d in ctx.attr.deps]
    objects = []
    for src in ctx.files.srcs:
        out = ctx.actions.declare_file(src.basename[:-len(".cu")] + ".cu.pic.o")
        args = ctx.actions.args()
        args.add_all(_NVCC_FLAGS + _PTX + _HOPPER)
        if ctx.attr.all_generations:
            args.add_all(_OTHERS)
        args.add_all(["-I.", "-I" + ctx.bin_dir.path])
        args.add_all(
            depset(transitive = [h.defines for h in headers]),
            format_each = "-D%s",
        )
        args.add_all(["-c", src, "-o", out])
        ctx.actions.run(
            executable = NVCC,
            arguments = [args],
            inputs = depset(
                [src] + ctx.files.hdrs + ctx.files.cuda_hdrs,
                transitive = [h.headers for h in headers],
            ),
            outputs = [out],
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s" % src.short_path,
        )
        objects.append(out)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "all_generations": attr.bool(),
        "cuda_hdrs": attr.label_list(allow_files = [".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
    },
)

def cuda_library(
        name,
        srcs,
        hdrs = [],
        cuda_hdrs = [],
        without_cuda = [],
        deps = [],
        visibility = None):
    """A cc_library of .cu sources.

    Args:
      name: the library.
      srcs: .cu files.
      hdrs: headers free of CUDA types.
      cuda_hdrs: .cuh files, for nvcc alone.
      without_cuda: C++ sources that stand in for `srcs` where there is no CUDA.
      deps: cc_library targets.
      visibility: as of a cc_library.
    """
    if not CUDA_AVAILABLE:
        native.cc_library(
            name = name,
            srcs = without_cuda,
            hdrs = hdrs,
            deps = deps,
            visibility = visibility,
        )
        return
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        all_generations = select({
            "//third_party/bazel:all_gpus": True,
            "//conditions:default": False,
        }),
        cuda_hdrs = cuda_hdrs,
        deps = deps,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [":%s_objects" % name],
        hdrs = hdrs,
        # The static CUDA runtime hides its symbols: it has to be linked into
        # the file that holds the kernels.
        linkstatic = True,
        defines = ["PARAMD_CUDA=1"],
        deps = deps + ["@local_config_cuda//:runtime"],
        visibility = visibility,
    )
