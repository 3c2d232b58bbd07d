"""All that a library consists of as one object file, for an archive that can be
used without Bazel."""

def _whole_object_impl(ctx):
    archives = []
    objects = []
    for dep in ctx.attr.deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                archive = library.pic_static_library or library.static_library
                if archive:
                    archives.append(archive)
                else:
                    objects += library.pic_objects or library.objects or []
    out = ctx.actions.declare_file(ctx.label.name + ".o")
    args = ctx.actions.args()
    args.add("-r")
    args.add("-o", out)
    args.add_all(objects)
    args.add("--whole-archive")
    args.add_all(archives)
    ctx.actions.run(
        outputs = [out],
        inputs = archives + objects,
        executable = "/usr/bin/ld",
        arguments = [args],
        mnemonic = "WholeObject",
    )
    return [DefaultInfo(files = depset([out]))]

whole_object = rule(
    implementation = _whole_object_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
