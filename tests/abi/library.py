#!/usr/bin/env python3
"""Checks that programs compiled against an earlier multidraft.h still work with libmultidraft: the interface against library.txt.

library.py [--header FILE] [--library SHARED] [--cc CC] [--cxx CXX]              what was removed or changed is an error, by its name
library.py [--header FILE] [--library SHARED] [--cc CC] [--cxx CXX] --write      writes library.txt, where a change is allowed
library.py [--header FILE] [--cc CC] [--cxx CXX] --self-test                     plants a change of every kind

The library is that of tools/test --all unless another one is named.
library.txt has the SONAME, the version of the symbols, each function with its type, constants, and structs with the offset,
size and type of each field. What is new is no error: functions, constants, fields at the end of structs with a `size`. The
library exports what the header declares, with a version, and nothing else; C11 and C++17 agree on the layout. Exit status 77
(skipped) without nm and readelf.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
ROOT = Path(__file__).resolve().parent.parent.parent
RECORD = Path(__file__).resolve().parent / "library.txt"
HEAD = """# The binary interface of libmultidraft, for machines with pointers of 8 bytes. tests/abi/library.py writes and checks it. A line that
# changes or goes breaks programs that are compiled: docs/stability.md says when that is allowed.
"""


def run(*command):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def must(*command):
    done = run(*command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout}")
    return done.stdout


# --- The header --------------------------------------------------------------------------------------------------------


def plain(text):
    """Without comments and preprocessor lines, with one blank between words."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"^ *#(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\s+", " ", text)


def argument_type(argument):
    """Without its name."""
    return re.sub(r"(?<=[\w*]) ?\b(?!void\b|const\b|char\b)[a-z_]\w*$", "", argument.strip()) if " " in argument.strip() else argument.strip()


def signature(result, arguments):
    return f"{result.strip()} ({', '.join(argument_type(a) for a in arguments.split(','))})"


def declared(text):
    """{name: type} of the functions and of pointers to functions; {struct: [(field, type)]}; [constant]."""
    functions = {name: signature(result, arguments)
                 for result, name, arguments in re.findall(r"\bMD_API ([^;(]*?) ?\b(md_\w+)\(([^)]*)\);", text)}
    pointers = {name: signature(result, arguments)
                for result, name, arguments in re.findall(r"typedef ([^;({]*?) ?\(\*(md_\w+)\)\(([^)]*)\);", text)}
    structs = {}
    for name, body in re.findall(r"typedef struct (md_\w+) \{(.*?)\} \1;", text):
        fields = re.findall(r"([^;]*?) ?\b(\w+)((?: ?\[\w+\])*);", body)
        structs[name] = [(field, re.sub(r"\s+", " ", kind).strip() + array) for kind, field, array in fields]
    constants = re.findall(r"\b(MD_\w+) = -?\w+", " ".join(re.findall(r"typedef enum \w+ \{(.*?)\}", text)))
    return functions, pointers, structs, constants


def layout(header, structs, constants, compilers, work):
    """{constant: value}, {struct: size}, {struct.field: (offset, size)}, as every compiler has them."""
    lines = [f'printf("{name} %lld\\n", (long long)({name}));' for name in constants]
    for name, fields in structs.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)NULL)->{field}));' for field, _ in fields]
    # The header's text, so that a changed one can be tried.
    (work / "multidraft.h").write_text(header, encoding="utf-8")
    source = "#include <stdio.h>\n#include \"multidraft.h\"\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    printed = []
    for suffix, compiler in compilers.items():
        (work / f"layout{suffix}").write_text(source, encoding="utf-8")
        must(*compiler, work / f"layout{suffix}", "-I", work, "-o", work / "layout")
        printed.append(must(work / "layout"))
    if len(set(printed)) != 1:
        sys.exit("C and C++ have different layouts:\n" + "\n".join(printed))
    return {name: tuple(map(int, numbers)) for name, *numbers in map(str.split, printed[0].splitlines())}


# --- The library -------------------------------------------------------------------------------------------------------


def exported(library):
    """SONAME, {symbol: version}."""
    soname = re.search(r"\(SONAME\).*\[(.*)\]", must("readelf", "-d", library))
    symbols = {}
    for line in must("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the name of the version itself
            symbols[name.partition("@")[0]] = name.partition("@@")[2]
    return soname[1] if soname else "none", symbols


def interface(header, library, compilers, work):
    """[line of library.txt], and what is wrong in itself."""
    functions, pointers, structs, constants = declared(plain(header))
    soname, symbols = exported(library)
    at = layout(header, structs, constants, compilers, work)
    faults = [f"{name}: declared and not exported" for name in sorted(set(functions) - set(symbols))]
    faults += [f"{name}: exported and not declared" for name in sorted(set(symbols) - set(functions))]
    faults += [f"{name}: exported without a version" for name, version in sorted(symbols.items()) if not version]
    if len(functions) < 20 or len(structs) < 10 or len(constants) < 10:
        faults.append(f"only {len(functions)} functions, {len(structs)} structs and {len(constants)} constants were found in the header")
    lines = [f"soname {soname}", *(f"version {v}" for v in sorted(set(symbols.values()) - {""}))]
    lines += [f"function {name} {kind}" for name, kind in sorted(functions.items())]
    lines += [f"pointer {name} {kind}" for name, kind in sorted(pointers.items())]
    lines += [f"constant {name} {at[name][0]}" for name in constants]
    for name, fields in structs.items():
        size, = at[name]
        lines.append(f"struct {name} {size}")
        lines += [f"field {name}.{field} {at[f'{name}.{field}'][0]} {at[f'{name}.{field}'][1]} {kind}" for field, kind in fields]
        if sum(at[f"{name}.{fields[-1][0]}"]) != size:
            faults.append(f"{name}: ends in padding, where a later field would be read from what an older program left there")
    return lines, faults


# --- The comparison ----------------------------------------------------------------------------------------------------


def parsed(lines):
    """{(what, name): the rest}; soname and version are what they are."""
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            what, name, *rest = line.split(" ", 2)
            found[(what, name)] = rest[0] if rest else ""
    return found


def of_kind(lines, what):
    return [name for kind, name in lines if kind == what]


def broken(before, now):
    """What a program compiled before would miss, and what is new."""
    before, now = parsed(before), parsed(now)
    faults = []
    for what in ("soname", "version"):
        if of_kind(before, what) != of_kind(now, what):
            faults.append(f"{what}: was {', '.join(of_kind(before, what))}, is {', '.join(of_kind(now, what)) or 'none'}")
    grown = set()
    for (what, name), rest in before.items():
        if what in ("soname", "version"):
            continue
        if (what, name) not in now:
            faults.append(f"{name}: the {what} was removed")
        elif what == "struct":
            was, is_now = int(rest), int(now[(what, name)])
            if is_now > was and f"{name}.size" in of_kind(before, "field"):
                grown.add(name)
            elif is_now != was:
                faults.append(f"{name}: the struct had {was} bytes, has {is_now}" + (", and no `size` to tell by" if is_now > was else ""))
        elif now[(what, name)] != rest:
            words = {"field": "offset, bytes and type "}.get(what, "")
            faults.append(f"{name}: the {what} was {words}{rest}, is {now[(what, name)]}")
    new = [(what, name) for what, name in now if (what, name) not in before and what not in ("soname", "version")]
    for what, name in new:
        struct = name.split(".")[0]
        if what == "field" and ("struct", struct) in before and int(now[(what, name)].split()[0]) < int(before[("struct", struct)]):
            faults.append(f"{name}: the new field lies before the end of the struct as it was, {before[('struct', struct)]} bytes")
    return faults, [name for _, name in new]


# --- Changes that must be seen -----------------------------------------------------------------------------------------


def stand_in(header, work, compilers, soname="libmultidraft.so.0.2", version="MULTIDRAFT_0.2", functions=None):
    """A library with the functions that a header declares, which do nothing."""
    (work / "multidraft.h").write_text(header, encoding="utf-8")
    names = functions or declared(plain(header))[0]
    (work / "stand_in.c").write_text("\n".join(f"void {name}(void) {{}}" for name in names))
    (work / "exports.map").write_text(f"{version} {{ global: md_*; local: *; }};\n")
    library = work / "stand_in.so"
    must(*compilers[".c"][:1], "-w", "-shared", "-fPIC", work / "stand_in.c", f"-Wl,-soname,{soname}",
         f"-Wl,--version-script={work}/exports.map", "-o", library)
    return library


def self_test(header, compilers, work):
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    before, faults = interface(header, stand_in(header, work, compilers), compilers, work)
    if faults:
        sys.exit("\n".join(faults))
    free = "MD_API void md_free_pool(md_pool* pool);"
    requests = re.search(r"typedef struct md_requests \{.*?\} md_requests;", header, re.DOTALL)[0]
    last = re.findall(r"[^;{]*;", requests)[-2]
    axis = re.search(r"typedef struct md_axis \{.*?\} md_axis;", header, re.DOTALL)[0]
    changes = [  # what, from, to, what is said
        ("nothing", "", "", None),
        ("a function that is gone", free, "", "md_free_pool: the function was removed"),
        ("another argument", free, free.replace("md_pool* pool", "md_pool* pool, int32_t how"), "md_free_pool: the function was"),
        ("another type", free, free.replace("md_pool* pool", "void* pool"), "md_free_pool: the function was"),
        ("another result", free, free.replace("void", "int32_t"), "md_free_pool: the function was"),
        ("another name of an argument", free, free.replace("pool)", "which)"), None),
        ("a new function", free, free + "\nMD_API int32_t md_new(int32_t x);", None),
        ("another callback", "(*md_task)(void* call, int32_t k)", "(*md_task)(void* call, int64_t k)", "md_task: the pointer was"),
        ("another constant", "MD_SYSTEM = 3", "MD_SYSTEM = 7", "MD_SYSTEM: the constant was 3, is 7"),
        ("a constant that is gone", "MD_BFLOAT16 = 3", "MD_BF16 = 3", "MD_BFLOAT16: the constant was removed"),
        ("a new constant", "MD_BFLOAT16 = 3", "MD_BFLOAT16 = 3, MD_INT8 = 4", None),
        ("a field that is gone", requests, requests.replace(last, ""), "the field was removed"),
        ("a field of another size", requests, requests.replace(last, last.replace("*", "")), "the field was offset, bytes and type"),
        ("a field of another type", requests, requests.replace(last, re.sub(r"\w+_t", "float", last)), "the field was offset, bytes and type"),
        ("a new field at the end", requests, requests.replace(last, last + " int64_t further;"), None),
        ("a new field in the middle", requests, requests.replace(last, " int64_t further;" + last), "lies before the end"),
        ("a new field and padding", requests, requests.replace(last, last + " int32_t further;"), "md_requests: ends in padding"),
        ("a new field without a size", axis, axis.replace("} md_axis", "int64_t further; } md_axis"), "no `size` to tell by"),
    ]
    expectations = []
    for what, old, new, wanted in changes:
        assert old in header, what
        changed = header.replace(old, new, 1) if old else header
        now, faults = interface(changed, stand_in(changed, work, compilers), compilers, work)
        expectations.append((what, faults + broken(before, now)[0], wanted))
    names = list(declared(plain(header))[0])
    for what, how, wanted in [("another SONAME", {"soname": "libmultidraft.so.1"}, "soname: was libmultidraft.so.0.2, is libmultidraft.so.1"),
                              ("another version of symbols", {"version": "MULTIDRAFT_9.9"}, "version: was MULTIDRAFT_0.2, is MULTIDRAFT_9.9"),
                              ("a function that is not exported", {"functions": names[1:]}, f"{names[0]}: declared and not exported"),
                              ("one that is not declared", {"functions": [*names, "md_secret"]}, "md_secret: exported and not declared")]:
        now, faults = interface(header, stand_in(header, work, compilers, **how), compilers, work)
        expectations.append((what, faults + broken(before, now)[0], wanted))
    wrong = 0
    for what, found, wanted in expectations:
        if (found and wanted is None) or (wanted is not None and not any(wanted in one for one in found)):
            wrong += 1
            print(f"{what}: expected {wanted!r}, got {found}")
    print(f"{len(expectations)} planted, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=Path, default=ROOT / "bindings/c/include/multidraft.h")
    parser.add_argument("--library", type=Path, default=ROOT / "build/test/bindings/c/libmultidraft.so")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    for tool in ("nm", "readelf"):
        if not shutil.which(tool):
            print(f"skipped: there is no {tool} (binutils)")
            return SKIPPED
    if sys.maxsize < 2**32:
        print("skipped: library.txt is of machines with pointers of 8 bytes")
        return SKIPPED
    compilers = {".c": [options.cc, "-std=c11"], ".cpp": [options.cxx, "-std=c++17"]}
    header = options.header.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as work:
        if options.self_test:
            return self_test(header, compilers, Path(work))
        lines, faults = interface(header, options.library, compilers, Path(work))
    if options.write:
        RECORD.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
        print(*faults, f"{RECORD}: {len(lines)} lines", sep="\n")
        return 1 if faults else 0
    missing, new = broken(RECORD.read_text(encoding="utf-8").splitlines(), lines)
    for fault in faults + missing:
        print(fault)
    if missing:
        print("Programs that are compiled break. Where docs/stability.md allows that: tests/abi/library.py --write")
    if new:
        print(f"new, and not in {RECORD.name} until --write: {', '.join(new)}")
    print(f"{sum(line.startswith('function ') for line in lines)} functions, {len(faults) + len(missing)} faults")
    return 1 if faults or missing else 0


if __name__ == "__main__":
    sys.exit(main())
