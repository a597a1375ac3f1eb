#!/usr/bin/env python3
"""The recipes for vcpkg and Conan agree with their documented formats and with the version of the header. Neither tool
is needed. Usage: check_recipes.py SOURCE_DIR CMAKE"""
import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, cmake = pathlib.Path(sys.argv[1]), sys.argv[2]
problems = []


def check(holds, problem):
    if not holds:
        problems.append(problem)


header = (root / "runtime/include/coir/version.hpp").read_text()
version = ".".join(re.findall(r"^#define COIR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.MULTILINE))

# ---- vcpkg: the manifest's fields, as "vcpkg.json reference" has them ----
port = root / "packaging/vcpkg/coir"
manifest = json.loads((port / "vcpkg.json").read_text())
known = {"$schema", "name", "version", "version-semver", "port-version", "description", "homepage", "license",
         "supports", "dependencies", "features", "default-features", "maintainers", "documentation", "summary"}
check(set(manifest) <= known, f"vcpkg.json: unknown fields {set(manifest) - known}")
check(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", manifest.get("name", "")), "vcpkg.json: no valid name")
check(manifest.get("version") == version, f"vcpkg.json: version {manifest.get('version')}, the header says {version}")
for dependency in manifest.get("dependencies", []):
    fields = {"name": dependency} if isinstance(dependency, str) else dependency
    check("name" in fields and set(fields) <= {"name", "host", "features", "default-features", "platform", "version>="},
          f"vcpkg.json: dependency {dependency}")
portfile = (port / "portfile.cmake").read_text()
for call in ("vcpkg_cmake_configure", "vcpkg_cmake_install", "vcpkg_cmake_config_fixup", "vcpkg_install_copyright"):
    check(f"{call}(" in portfile, f"portfile.cmake: no {call}()")

# ---- Conan 2: what a recipe of a library has ----
for recipe, needed in (
    ("conanfile.py", {"set_version", "export_sources", "requirements", "layout", "generate", "build", "package",
                      "package_info"}),
    ("test_package/conanfile.py", {"requirements", "layout", "build", "test"}),
):
    tree = ast.parse((root / "packaging/conan" / recipe).read_text(), recipe)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    check(len(classes) == 1, f"{recipe}: one class is needed")
    methods = {node.name for node in classes[0].body if isinstance(node, ast.FunctionDef)}
    check(needed <= methods, f"{recipe}: no {needed - methods}")
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    check(modules <= {"conan", "conan.errors", "conan.tools.build", "conan.tools.cmake", "conan.tools.files"},
          f"{recipe}: imports {modules}: not all of Conan 2")

# The recipe's sources are enough for CMakeLists.txt.
recipe = (root / "packaging/conan/conanfile.py").read_text()
exported = re.search(r"for pattern in \((.*?)\):", recipe, re.DOTALL)
with tempfile.TemporaryDirectory() as folder:
    for pattern in re.findall(r'"([^"]+)"', exported.group(1)):
        for found in root.glob(pattern):
            to = pathlib.Path(folder) / found.relative_to(root)
            to.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                shutil.copytree(found, to)
            else:
                shutil.copy(found, to)
    done = subprocess.run([cmake, "-S", folder, "-B", f"{folder}/build", "-DCOIR_BUILD_TESTS=OFF",
                           "-DCOIR_BUILD_BENCHMARKS=OFF", "-DCOIR_BUILD_EXAMPLES=OFF", "-DCOIR_INSTALL=ON"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, f"conanfile.py: its sources cannot be configured:\n{done.stdout}")

for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
