"""Makes docs/python-reference.md from the docstrings:

  python3 python/print_reference.py >docs/python-reference.md

Reads the sources and imports nothing of them: no NumPy, PyTorch or Keras is needed.
Python 3.9 and later.
"""

import ast
import pathlib
import textwrap

PACKAGE = pathlib.Path(__file__).parent / "paramd"

HEAD = """# Reference of the Python package

[python.md](python.md) says how the parts fit together. This page is made from the
docstrings by `python/print_reference.py`; a test compares the two.
"""

# Section, module, its public names in their order.
SECTIONS = [
    ("paramd", "worker", ["Worker"]),
    ("paramd", "data", ["Shards", "Stream"]),
    ("paramd.parquet", "parquet", ["convert", "Dataset"]),
    ("paramd", "cluster", ["local", "Local"]),
    ("paramd", "progress", ["History", "Sample"]),
    ("paramd", "client", ["Client", "AsyncClient", "Pulled", "Checkpointed"]),
    ("paramd", "checkpoint", ["load"]),
    ("paramd", "tf_config", ["TFConfig"]),
    ("paramd.torch", "torch", ["Worker", "Epoch", "load"]),
    ("paramd.keras", "keras", ["fit", "Optimizer", "Callback", "load"]),
    ("paramd.keras", "_keras_torch", ["Worker"]),
    ("paramd", "_errors", ["Error", "InvalidArgument", "NotFinite", "PartlyPushed",
                           "Unavailable", "Cancelled", "JobStopped"]),
]


def _signature(function, is_method):
    arguments = function.args
    if is_method:
        del arguments.args[0]
    # Types stand in the sources; here they would hide the names.
    for one in (arguments.posonlyargs + arguments.args + arguments.kwonlyargs
                + [one for one in (arguments.vararg, arguments.kwarg) if one]):
        one.annotation = None
    return f"({ast.unparse(arguments)})"


def _text(node, where):
    found = ast.get_docstring(node)
    if not found:
        raise SystemExit(f"{where} has no docstring")
    return found


def _is_public(node):
    return (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and not node.name.startswith("_")
            and not any(isinstance(one, ast.Attribute) and one.attr == "setter"
                        for one in node.decorator_list))


def _is_property(node):
    return any(isinstance(one, ast.Name) and one.id == "property"
               for one in node.decorator_list)


def _block(text):
    return "```text\n" + text.strip() + "\n```\n"


def _method(node, owner):
    words = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    call = "" if _is_property(node) else _signature(node, True)
    body = textwrap.fill(node.name + call, 88, subsequent_indent="    ",
                         break_long_words=False, break_on_hyphens=False)
    text = textwrap.indent(_text(node, f"{owner}.{node.name}"), "    ")
    return f"{words}{body}\n{text}\n"


def _class(node, name):
    init = next((one for one in node.body if isinstance(one, ast.FunctionDef)
                 and one.name == "__init__"), None)
    bases = [ast.unparse(base) for base in node.bases]
    call = _signature(init, True) if init else ""
    parts = [textwrap.fill(f"class {name}{call}", 88, subsequent_indent="    ",
                           break_long_words=False, break_on_hyphens=False)]
    if any(base.endswith(("Error", "Exception", "InvalidArgument"))
           for base in bases):
        parts = [f"class {name}({', '.join(bases)})"]
    parts.append(textwrap.indent(_text(node, name), "    ") + "\n")
    parts += [textwrap.indent(_method(one, name), "    ") for one in node.body
              if _is_public(one)]
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines())


def _function(node, name):
    head = textwrap.fill(name + _signature(node, False), 88,
                         subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)
    return head + "\n" + textwrap.indent(_text(node, name), "    ")


def reference():
    """The page."""
    parts = [HEAD]
    for module, file, names in SECTIONS:
        tree = ast.parse((PACKAGE / f"{file}.py").read_text(encoding="utf-8"))
        nodes = {node.name: node for node in tree.body
                 if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        for name in names:
            full = f"{module}.{name}"
            if file == "progress" or name in ("Local", "Pulled", "Checkpointed"):
                full = f"paramd.{file}.{name}"
            make = _class if isinstance(nodes[name], ast.ClassDef) else _function
            parts.append(f"## `{full}`\n\n" + _block(make(nodes[name], full)))
    return "\n".join(parts)


if __name__ == "__main__":
    print(reference(), end="")
