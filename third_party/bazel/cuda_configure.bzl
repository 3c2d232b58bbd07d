"""Finds CUDA: $CUDA_HOME, else nvcc on the PATH, else /usr/local/cuda.

CUDA_HOME decides alone if it is set: CUDA_HOME=/nowhere builds without CUDA.

The repository it makes has `defs.bzl` (CUDA_AVAILABLE, NVCC) and the library
`:runtime`, which is empty where there is no CUDA.
"""

_BUILD = """package(default_visibility = ["//visibility:public"])

cc_library(
    name = "runtime",
    linkopts = {linkopts},
)
"""

_DEFS = """CUDA_AVAILABLE = {available}
NVCC = {nvcc}
"""

def _find_home(ctx):
    named = ctx.os.environ.get("CUDA_HOME")
    nvcc = ctx.which("nvcc")
    if named:
        candidates = [ctx.path(named)]
    elif nvcc != None:
        candidates = [nvcc.realpath.dirname.dirname]
    else:
        candidates = [ctx.path("/usr/local/cuda")]
    for home in candidates:
        if home.get_child("bin").get_child("nvcc").exists:
            return home
    return None

def _find_runtime(ctx, home):
    for folder in ["lib64", "lib", "targets/x86_64-linux/lib"]:
        archive = ctx.path("%s/%s/libcudart_static.a" % (home, folder))
        if archive.exists:
            return str(archive)
    archive = ctx.path("/usr/lib/x86_64-linux-gnu/libcudart_static.a")
    return str(archive) if archive.exists else None

def _cuda_configure_impl(ctx):
    home = _find_home(ctx)
    runtime = _find_runtime(ctx, home) if home != None else None
    nvcc = str(home.get_child("bin").get_child("nvcc")) if runtime else None
    linkopts = [runtime, "-ldl", "-lrt", "-pthread"] if runtime else []
    ctx.file("BUILD", _BUILD.format(linkopts = repr(linkopts)))
    ctx.file("defs.bzl", _DEFS.format(
        available = repr(runtime != None),
        nvcc = repr(nvcc),
    ))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME", "PATH"],
    configure = True,
    local = True,
)
